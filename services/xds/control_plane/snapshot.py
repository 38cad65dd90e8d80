"""A snapshot: every resource the gateway should have, each with a version derived from its
content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from . import protobuf
from .resources.clusters import clusters
from .resources.listener import GatewayAddress, listener
from .resources.routes import route_config
from .resources.runtime import runtime_layer
from .routing import RoutingTable


class ResourceType(Enum):
    """The types served, in make-before-break order. The value is the type URL."""

    RUNTIME = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
    CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
    ROUTE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"


@dataclass(frozen=True, slots=True)
class Resource:
    """A serialized resource. Equal content has an equal version, across processes and restarts."""

    name: str
    body: bytes
    version: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b(self.body, digest_size=8).hexdigest()
        object.__setattr__(self, "version", digest)


Resources = Mapping[str, Resource]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Resources by type and name; `required` are the clusters that the routes point to, and
    `destinations` the services by model.

    `created_s` is the monotonic time of the change that led to it, for measuring convergence.
    """

    resources: Mapping[ResourceType, Resources]
    required: frozenset[str]
    destinations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    created_s: float = 0.0

    def of(self, resource_type: ResourceType) -> Resources:
        return self.resources.get(resource_type, {})

    def version(self, resource_type: ResourceType, name: str) -> str | None:
        resource = self.of(resource_type).get(name)
        return resource.version if resource else None


def build(table: RoutingTable, gateway: GatewayAddress, *, created_s: float = 0.0) -> Snapshot:
    """The snapshot of a routing table."""
    cluster_documents = clusters(table.routes)
    layer, entry, routes = runtime_layer(table), listener(gateway), route_config(table.routes)
    return Snapshot(
        resources={
            ResourceType.RUNTIME: _named(str(layer["name"]), protobuf.runtime(layer)),
            ResourceType.CLUSTER: {
                name: Resource(name, protobuf.cluster(document))
                for name, document in cluster_documents.items()
            },
            ResourceType.ENDPOINTS: {
                name: Resource(name, _endpoints(table, name)) for name in cluster_documents
            },
            ResourceType.LISTENER: _named(entry["name"], protobuf.listener(entry)),
            ResourceType.ROUTE: _named(routes["name"], protobuf.route_configuration(routes)),
        },
        required=frozenset(_pointed_at(table)),
        destinations={route.model: route.destinations for route in table.routes},
        created_s=created_s,
    )


def _pointed_at(table: RoutingTable) -> Iterator[str]:
    for route in table.routes:
        for backend in route.backends:
            if backend.weight:
                yield from (backend.cluster(protocol) for protocol in route.protocols)


def _endpoints(table: RoutingTable, cluster: str) -> bytes:
    return protobuf.cluster_load_assignment(cluster, sorted(table.endpoints.get(cluster, ())))


def _named(name: str, body: bytes) -> Resources:
    return {name: Resource(name, body)}
