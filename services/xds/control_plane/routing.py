"""The routing table: the backends of each model, and the endpoints of their replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
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


HeaderName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$")]
Policy = Literal["affinity", "least_request"]
Key = Literal["session", "user", "prefix"]


class Routing(BaseModel):
    """How the replica of a request is chosen.

    By `affinity`, requests with one key go to one replica as long as it has at most `bound_percent`
    of the mean number of requests in flight. The key is the value of `session_header`, else the
    user in the body (`prompt_cache_key`, `user` or `metadata.user_id`), else the beginning of the
    prompt; `key` is the last of these that is used. Over gRPC there is the header only, and without
    one the policy is `least_request`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Policy = "affinity"
    key: Key = "prefix"
    session_header: HeaderName | None = None
    bound_percent: Annotated[int, Field(ge=100, le=10_000)] = 150

    @model_validator(mode="after")
    def _a_session_has_a_header(self) -> Routing:
        if self.policy == "affinity" and self.key == "session" and self.session_header is None:
            raise ValueError("the key 'session' needs a session_header")
        return self

    def has_key(self, protocol: Protocol) -> bool:
        """Whether requests over a protocol can have a key."""
        if self.policy != "affinity":
            return False
        return protocol == HTTP or self.session_header is not None


LEAST_REQUEST = Routing(policy="least_request")  # of documents before version 4

_UNIQUE: JsonDict = {"uniqueItems": True}
_WITHOUT_ROUTING_IN_VERSION_3: JsonDict = {
    "if": {"properties": {"schema_version": {"const": 3}}},
    "then": {"properties": {"routing": False}},
    "else": {"required": ["routing"]},
}


class Route(BaseModel):
    """One document under `slipway/routes/` (schemas/route.schema.json is this model's schema).

    Version 4 says how the replica of a request is chosen; before it, the one with fewer requests of
    two.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra=_WITHOUT_ROUTING_IN_VERSION_3
    )

    schema_version: Literal[3, 4]
    model: Name
    aliases: tuple[Name, ...] = ()
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1, json_schema_extra=_UNIQUE)]
    backends: Annotated[tuple[Backend, ...], Field(min_length=1)]
    max_concurrent_requests_per_replica: Annotated[int, Field(ge=1, le=1_000_000)]
    stream_idle_timeout_s: Annotated[int, Field(ge=1, le=86_400)]
    max_stream_duration_s: Annotated[int, Field(ge=1, le=604_800)]
    routing: Routing = LEAST_REQUEST

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
    def _routing_is_part_of_version_4(self) -> Route:
        given = "routing" in self.model_fields_set
        if given and self.schema_version == 3:
            raise ValueError("version 3 has no routing: set schema_version to 4")
        if not given and self.schema_version == 4:
            raise ValueError("version 4 needs routing")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a client may use, the model's own first."""
        return (self.model, *(alias for alias in self.aliases if alias != self.model))

    def clusters(self) -> tuple[str, ...]:
        return self._clusters

    @cached_property
    def _clusters(self) -> tuple[str, ...]:
        """Kept: a change of one route passes over those of all."""
        return tuple(
            backend.cluster(protocol) for backend in self.backends for protocol in self.protocols
        )

    def clusters_on_other_hosts(self) -> tuple[str, ...]:
        """Those that are reached over TLS, through the proxy of their host."""
        return tuple(
            backend.cluster(protocol)
            for backend in self.backends
            for protocol in self.protocols
            if backend.server_name
        )

    def clusters_with_keys(self) -> tuple[str, ...]:
        """Those whose requests can have keys."""
        return tuple(
            backend.cluster(protocol)
            for backend in self.backends
            for protocol in self.protocols
            if self.routing.has_key(protocol)
        )

    @property
    def destinations(self) -> tuple[str, ...]:
        """The services that requests go to, sorted: those of backends with a weight."""
        return tuple(sorted(backend.service for backend in self.backends if backend.weight))


EQUAL_WEIGHT = 100  # percent of an equal share of keys and requests
# Of a replica whose job has others with weights: its cache is cold, so it gets keys bit by bit.
NEW_REPLICA_WEIGHT = 30


Place = tuple[str, int]  # the address and port of an endpoint


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Where a replica listens for one protocol. `address` is an IP, because Envoy rejects host
    names in EDS. `replica` is its name, which it keeps when it restarts elsewhere; "" if unknown.
    At `liveness_port` of the same address somebody other than the engine tells whether its steps
    end; 0 if nobody does. `weight` is in percent of an equal share. `instance` is Consul's
    ID of the service; "" if it was taken out of use on purpose. `held` is whether it stays in use
    though it is not healthy (holding.py).
    """

    address: str
    port: int
    healthy: bool
    replica: str = ""
    liveness_port: int = 0
    weight: int = EQUAL_WEIGHT
    instance: str = field(default="", compare=False)  # nothing that is served follows from it
    held: bool = False

    @property
    def place(self) -> Place:
        return self.address, self.port

    @property
    def in_use(self) -> bool:
        return self.healthy or self.held


def weighted(endpoints: tuple[Endpoint, ...], weights: Mapping[str, int]) -> tuple[Endpoint, ...]:
    """Endpoints of one cluster with the weights of their replicas. One that is not among those of
    the others is new; nobody weighs one without a name."""
    known = any(endpoint.replica in weights for endpoint in endpoints)
    first = NEW_REPLICA_WEIGHT if known else EQUAL_WEIGHT
    return tuple(
        replace(each, weight=weights.get(each.replica, first) if each.replica else EQUAL_WEIGHT)
        for each in endpoints
    )


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """All that the gateway serves. `endpoints` is keyed by cluster name."""

    routes: tuple[Route, ...]
    endpoints: Mapping[str, tuple[Endpoint, ...]]
