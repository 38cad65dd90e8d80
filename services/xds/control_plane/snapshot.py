"""A snapshot: every resource the gateway should have, each with a version derived from its
content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class ResourceType(Enum):
    """The types served, in make-before-break order. The value is the type URL."""

    RUNTIME = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
    CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
    ROUTE = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"


@dataclass(frozen=True, slots=True)
class Resource:
    """A serialized resource. Equal content has an equal version, across processes and restarts.

    `needs` are the clusters that must be warm before it is sent.
    """

    name: str
    body: bytes
    needs: frozenset[str] = frozenset()
    version: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.body, digest_size=8).hexdigest()
        object.__setattr__(self, "version", digest)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a scope of routes sends requests: the services of a model, sorted; "" and none for the
    scope of requests without a known model."""

    model: str = ""
    services: tuple[str, ...] = ()


Resources = Mapping[str, Resource]
Names = Mapping[ResourceType, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Resources by type and name, and `destinations` by the name of their scope.

    `created_s` is the monotonic time of the change that led to it, for measuring convergence.
    """

    resources: Mapping[ResourceType, Resources]
    destinations: Mapping[str, Destination] = field(default_factory=dict)
    created_s: float = 0.0

    def of(self, resource_type: ResourceType) -> Resources:
        return self.resources.get(resource_type, {})

    def version(self, resource_type: ResourceType, name: str) -> str | None:
        resource = self.of(resource_type).get(name)
        return resource.version if resource else None


def changed(before: Snapshot | None, after: Snapshot) -> Names:
    """The names, by type, of resources that came, went or have another version."""
    held = {kind: before.of(kind) if before else {} for kind in ResourceType}
    names = {kind: _changed(held[kind], after.of(kind)) for kind in ResourceType}
    return {kind: found for kind, found in names.items() if found}


def _changed(before: Resources, after: Resources) -> frozenset[str]:
    if before is after:
        return frozenset()
    fresh = {
        name
        for name, resource in after.items()
        if (old := before.get(name)) is not resource
        and (old is None or old.version != resource.version)
    }
    return frozenset(fresh | (before.keys() - after.keys()))
