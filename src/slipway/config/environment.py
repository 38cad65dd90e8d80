"""One environment: the `config:` section of Pulumi.<name>.yaml."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from .base import PositiveInt, ResourceName, Seconds, Settings, SizeBytes, invalid
from .document import Origin
from .errors import Problem, raise_if_any, suggestion
from .validation import validated

NAMESPACE = "slipway:"
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")
RESERVED_POOLS = {"all", "default"}  # node pools that Nomad itself has
MAX_POOLS = 15  # 16 addresses each, after the 16 of the servers, in a /24
MAX_NODES_PER_POOL = 16


def _loopback_network(text: str) -> str:
    fix = "use a private corner of loopback, e.g. 127.77.0.0/24"
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise invalid(f"is not an IPv4 network: {error}", fix=fix) from None
    if not network.subnet_of(LOOPBACK):
        raise invalid(f"must lie inside {LOOPBACK}", fix=fix)
    if network.prefixlen > 24:
        raise invalid("must be a /24 or larger", fix=fix)
    if network.network_address == LOOPBACK.network_address:
        raise invalid("would give 127.0.0.1 to a server: it belongs to the machine", fix=fix)
    return text


class NetworkSettings(Settings):
    cidr: Annotated[str, AfterValidator(_loopback_network)]


class PoolSettings(Settings):
    """Nodes of one shape. `memory` and `cpu` (cores) are what one node offers to tasks."""

    kind: Literal["local"]
    nodes: Annotated[int, Field(ge=1, le=MAX_NODES_PER_POOL)]
    memory: SizeBytes | None = None
    cpu: PositiveInt | None = None
    first_address: str | None = None


class ReplicaSettings(Settings):
    min: PositiveInt
    max: PositiveInt


def _surge(value: Any) -> int | None:
    if value is None or (type(value) is int and value == 0):
        return value
    raise invalid(
        "must be 0 (a change exchanges replicas one by one) or left out (a full set of new replicas"
        " starts beside the old ones)",
        fix="write `surge: 0`, or remove `surge`",
    )


class DeploymentSettings(Settings):
    """A model of models/ on a pool, with the envelope its replica count moves in.

    `surge`: replicas that a changed spec starts beside the old ones. Unset: as many as there are.
    """

    pool: ResourceName
    replicas: ReplicaSettings
    surge: Annotated[int | None, BeforeValidator(_surge)] = None


class GatewaySettings(Settings):
    pool: ResourceName = "edge"
    port: Annotated[int, Field(ge=1024, le=65535)] = 8080


class MonitoringSettings(Settings):
    scrape_interval_s: Seconds = 5


class AutoscalingSettings(Settings):
    """`target_inflight_per_replica` unset: half of the engine's max_num_seqs, per model."""

    evaluation_interval_s: Seconds = 5
    cooldown_s: Seconds = 60
    target_inflight_per_replica: PositiveInt | None = None


class EnvironmentSettings(Settings):
    target: Literal["dev"]
    network: NetworkSettings
    servers: Literal[1, 3] = 1
    pools: Annotated[Mapping[ResourceName, PoolSettings], Field(min_length=1, max_length=MAX_POOLS)]
    models: Mapping[ResourceName, DeploymentSettings]
    models_dir: str = "models"
    gateway: GatewaySettings = GatewaySettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    autoscaling: AutoscalingSettings = AutoscalingSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    name: str
    settings: EnvironmentSettings
    origin: Origin


def parse_environment(
    values: Mapping[str, Any], *, name: str, source: str, origin: Origin | None = None
) -> Environment:
    """Check the configuration of one environment.

    `values` maps "slipway:<key>" to a value, or to its JSON text as Pulumi hands objects to a
    program; keys of other namespaces ("pulumi:tags", "aws:region") are not ours and are skipped.
    Raises ConfigError with every problem.
    """
    origin = origin or Origin(source=source, namespace=NAMESPACE)
    own = {
        key.removeprefix(NAMESPACE): _decoded(value)
        for key, value in values.items()
        if key.startswith(NAMESPACE) or ":" not in key
    }
    settings = validated(EnvironmentSettings, own, origin)
    raise_if_any(_reference_problems(settings, origin))
    return Environment(name=name, settings=settings, origin=origin)


def _decoded(value: Any) -> Any:
    """Pulumi gives programs every value as text: objects, numbers and booleans as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _reference_problems(settings: EnvironmentSettings, origin: Origin) -> list[Problem]:
    problems = [
        origin.problem(
            path,
            "names a pool this environment does not have",
            value=pool,
            fix=suggestion(pool, settings.pools),
        )
        for path, pool in _pool_references(settings)
        if pool not in settings.pools
    ]
    problems += [
        origin.problem(
            ("pools", name), "is a name Nomad keeps for itself", value=name, fix="rename the pool"
        )
        for name in settings.pools
        if name in RESERVED_POOLS
    ]
    for name, deployment in settings.models.items():
        replicas = deployment.replicas
        if replicas.min > replicas.max:
            problems.append(
                origin.problem(
                    ("models", name, "replicas"),
                    "min is greater than max",
                    value={"min": replicas.min, "max": replicas.max},
                    fix=f"raise max to {replicas.min} or lower min to {replicas.max}",
                )
            )
    return problems


def _pool_references(settings: EnvironmentSettings) -> list[tuple[tuple[str, ...], str]]:
    models = [
        (("models", name, "pool"), deployment.pool) for name, deployment in settings.models.items()
    ]
    return [*models, (("gateway", "pool"), settings.gateway.pool)]
