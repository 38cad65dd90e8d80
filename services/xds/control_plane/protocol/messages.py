"""The inputs and outputs of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..snapshot import Resource, ResourceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A DeltaDiscoveryRequest. It is a rejection if and only if it has an `error`."""

    resource_type: ResourceType
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    initial_versions: Mapping[str, str] = field(default_factory=dict)
    nonce: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A DeltaDiscoveryResponse to send now."""

    resource_type: ResourceType
    nonce: str
    resources: tuple[Resource, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """The client applied a response. `convergence_s` is the time since the change; None for older
    state."""

    resource_type: ResourceType
    latency_s: float
    convergence_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The client refused a response. `culprit` is set once a single resource is to blame."""

    resource_type: ResourceType
    names: tuple[str, ...]
    detail: str
    culprit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """The client did not answer in time; the response is no longer waited for."""

    resource_type: ResourceType
    names: tuple[str, ...]


Action = Send | Acked | Rejected | Silent
