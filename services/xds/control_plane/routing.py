"""The routing table: the backends of each model, and the endpoints of their replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$")]
ServiceName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
ServerName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]

Protocol = Literal["http", "grpc"]
HTTP: Protocol = "http"  # OpenAI's API: HTTP/1.1 with server-sent events
GRPC: Protocol = "grpc"  # Triton's inference.GRPCInferenceService
PROTOCOLS = (HTTP, GRPC)

_SERVICE_SUFFIX = {HTTP: "openai", GRPC: "grpc"}


class Backend(BaseModel):
    """One generation of a model: a job whose replicas share one Consul service per protocol.

    `server_name` is the name in the certificate of its replicas, which speak TLS; without it they
    speak plain HTTP.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    service: ServiceName
    server_name: ServerName | None = None
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 100

    def cluster(self, protocol: Protocol) -> str:
        """Name of the Consul service, and of the Envoy cluster, of one protocol."""
        return f"{self.service}-{_SERVICE_SUFFIX[protocol]}"


_UNIQUE: JsonDict = {"uniqueItems": True}
_PLAIN_IN_VERSION_2: JsonDict = {
    "if": {"properties": {"schema_version": {"const": 2}}},
    "then": {
        "properties": {"backends": {"items": {"properties": {"server_name": {"const": None}}}}}
    },
}


class Route(BaseModel):
    """One document under `slipway/routes/` (schemas/route.schema.json is this model's schema).

    Since version 3 a backend may name the certificate of its replicas.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_PLAIN_IN_VERSION_2)

    schema_version: Literal[2, 3]
    model: Name
    aliases: tuple[Name, ...] = ()
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1, json_schema_extra=_UNIQUE)]
    backends: Annotated[tuple[Backend, ...], Field(min_length=1)]
    max_concurrent_requests_per_replica: Annotated[int, Field(ge=1, le=1_000_000)]
    stream_idle_timeout_s: Annotated[int, Field(ge=1, le=86_400)]
    max_stream_duration_s: Annotated[int, Field(ge=1, le=604_800)]

    @model_validator(mode="after")
    def _some_backend_takes_traffic(self) -> Route:
        if not any(backend.weight for backend in self.backends):
            raise ValueError("every backend has weight 0: give at least one a positive weight")
        if len({backend.service for backend in self.backends}) != len(self.backends):
            raise ValueError("a backend is listed twice: merge its weights into one entry")
        return self

    @model_validator(mode="after")
    def _no_protocol_is_listed_twice(self) -> Route:
        if len(set(self.protocols)) != len(self.protocols):
            raise ValueError("a protocol is listed twice")
        return self

    @model_validator(mode="after")
    def _certificates_are_named_since_version_3(self) -> Route:
        named = any(backend.server_name for backend in self.backends)
        if named and self.schema_version == 2:
            raise ValueError("version 2 has no server_name: set schema_version to 3")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a client may use, the model's own first."""
        return (self.model, *(alias for alias in self.aliases if alias != self.model))

    def clusters(self) -> tuple[str, ...]:
        return tuple(
            backend.cluster(protocol) for backend in self.backends for protocol in self.protocols
        )

    @property
    def destinations(self) -> tuple[str, ...]:
        """The services that requests go to, sorted: those of backends with a weight."""
        return tuple(sorted(backend.service for backend in self.backends if backend.weight))


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Where a replica listens for one protocol. `address` is an IP, because Envoy rejects host
    names in EDS."""

    address: str
    port: int
    healthy: bool


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """All that the gateway serves. `endpoints` is keyed by cluster name."""

    routes: tuple[Route, ...]
    endpoints: Mapping[str, tuple[Endpoint, ...]]
