"""The routing table: which model is served by which backends, and where their replicas listen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$")]
ServiceName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]

OPENAI = "openai"  # HTTP/1.1 with server-sent events
GRPC = "grpc"  # Triton's inference.GRPCInferenceService
DOORS = (OPENAI, GRPC)


class Backend(BaseModel):
    """One generation of a model: a job whose replicas share one Consul service per door."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    service: ServiceName
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 100

    def cluster(self, door: str) -> str:
        """Name of the Consul service, and of the Envoy cluster, of one door."""
        return f"{self.service}-{door}"


class Route(BaseModel):
    """One document under `slipway/routes/` (schemas/route.schema.json is this model's schema)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1]
    model: Name
    aliases: tuple[Name, ...] = ()
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

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a client may use, the model's own first."""
        return (self.model, *(alias for alias in self.aliases if alias != self.model))

    def clusters(self) -> tuple[str, ...]:
        return tuple(backend.cluster(door) for backend in self.backends for door in DOORS)


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """A replica's door. `address` is an IP: Envoy rejects host names in EDS."""

    address: str
    port: int
    healthy: bool


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """What the gateway serves. `endpoints` is keyed by cluster name."""

    routes: tuple[Route, ...]
    endpoints: Mapping[str, tuple[Endpoint, ...]]
