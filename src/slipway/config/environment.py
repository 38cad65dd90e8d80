"""One environment: the `config:` section of Pulumi.<name>.yaml."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from .base import PositiveInt, Replicas, ResourceName, Seconds, Settings, UsdPerHour, invalid
from .document import KeyPath, Origin
from .errors import Problem, raise_if_any, suggestion
from .gateway import GatewaySettings
from .hosts import ListedHost, host_problems, key_problems, unplaced
from .pools import (
    ADDRESSES_PER_POOL,
    AwsPool,
    FleetPool,
    HostSettings,
    LocalPool,
    MetalPool,
    PoolSettings,
)
from .security import SecuritySettings
from .ssh import SshSettings
from .validation import validated

NAMESPACE = "slipway:"
LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")
RESERVED_POOLS = {"all", "default"}  # Nomad's built-in node pools
MAX_LOCAL_POOLS = 15  # of 16 addresses each in a /24, after the servers' 16
MAX_FLEET_POOLS = 100
Target = Literal["dev", "aws", "metal"]
TARGETS = get_args(Target)
FLEETS = ("aws", "metal")  # targets whose hosts are machines elsewhere


def _loopback_network(text: str) -> str:
    fix = "use a private part of the loopback range, e.g. 127.77.0.0/24"
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise invalid(f"is not an IPv4 network: {error}", fix=fix) from None
    if not network.subnet_of(LOOPBACK):
        raise invalid(f"must be inside {LOOPBACK}", fix=fix)
    if network.prefixlen > 24:
        raise invalid("must be a /24 or larger", fix=fix)
    if network.network_address == LOOPBACK.network_address:
        raise invalid("would give a server 127.0.0.1, which the machine itself uses", fix=fix)
    return text


def _private_network(text: str) -> str:
    fix = "use a private network, e.g. 10.40.0.0/16"
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise invalid(f"is not an IPv4 network: {error}", fix=fix) from None
    if not network.is_private or network.is_loopback:
        raise invalid("is not a private network", fix=fix)
    return text


class NetworkSettings(Settings):
    cidr: str


class LoopbackNetwork(NetworkSettings):
    EXAMPLE = "{cidr: 127.77.0.0/24}"
    cidr: Annotated[str, AfterValidator(_loopback_network)]


class PrivateNetwork(NetworkSettings):
    EXAMPLE = "{cidr: 10.40.0.0/16}"
    cidr: Annotated[str, AfterValidator(_private_network)]


class ReplicaSettings(Settings):
    EXAMPLE = "{min: 1, max: 2}"
    min: Replicas
    max: Replicas


def _surge(value: Any) -> int | None:
    if value is None or (type(value) is int and value == 0):
        return value
    raise invalid(
        "must be 0 (a change replaces replicas one by one) or left out (a full set of new replicas"
        " starts beside the old ones)",
        fix="write `surge: 0`, or remove `surge`",
    )


class DeploymentSettings(Settings):
    """A model of models/ on a pool, with the bounds of its replica count.

    `surge` is the number of replicas that a changed spec starts beside the old ones; unset, as many
    as are running.
    """

    EXAMPLE = "{pool: cpu, replicas: {min: 1, max: 2}}"
    pool: ResourceName
    replicas: ReplicaSettings
    surge: Annotated[int | None, BeforeValidator(_surge)] = None

    @property
    def candidates(self) -> tuple[str, ...]:
        return (self.pool,)


class FleetDeploymentSettings(Settings):
    """A model on the cheapest of the named pools: `pool: x` or `pools: [x, y]`."""

    EXAMPLE = "{pools: [l4, h100], replicas: {min: 1, max: 2}}"
    pool: ResourceName | None = None
    pools: Annotated[tuple[ResourceName, ...], Field(strict=False)] = ()
    replicas: ReplicaSettings
    surge: Annotated[int | None, BeforeValidator(_surge)] = None

    @property
    def candidates(self) -> tuple[str, ...]:
        return self.pools if self.pool is None else (self.pool, *self.pools)


class BudgetSettings(Settings):
    """Spending limits: at the declared load, with every model at its maximum, and for what one
    change may add."""

    EXAMPLE = "{usd_per_hour: 50, usd_per_hour_at_most: 80}"
    usd_per_hour: UsdPerHour | None = None
    usd_per_hour_at_most: UsdPerHour | None = None
    usd_per_hour_per_change: UsdPerHour | None = None


class MonitoringSettings(Settings):
    EXAMPLE = "{scrape_interval_s: 5}"
    scrape_interval_s: Seconds = 5


class AutoscalingSettings(Settings):
    """`target_inflight_per_replica` unset: half of the engine's max_num_seqs, per model."""

    EXAMPLE = "{cooldown_s: 60}"
    evaluation_interval_s: Seconds = 5
    cooldown_s: Seconds = 60
    target_inflight_per_replica: PositiveInt | None = None


class SnapshotSettings(Settings):
    """How often the states of Consul and Nomad are copied to a host of the gateway's pool, and how
    many copies are kept."""

    EXAMPLE = "{every_h: 1, keep: 24}"
    every_h: Annotated[int, Field(ge=1, le=23)] = 1
    keep: Annotated[int, Field(ge=1, le=1000)] = 24


class EnvironmentSettings(Settings):
    """Settings of every environment; each kind of target narrows network, pools and models."""

    target: Target
    network: NetworkSettings
    servers: Literal[1, 3, 5] = 1
    pools: Mapping[ResourceName, PoolSettings]
    models: Mapping[ResourceName, DeploymentSettings | FleetDeploymentSettings]
    models_dir: str = "models"
    budget: BudgetSettings = BudgetSettings()
    gateway: GatewaySettings = GatewaySettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    autoscaling: AutoscalingSettings = AutoscalingSettings()
    security: SecuritySettings = SecuritySettings()


class DevSettings(EnvironmentSettings):
    """Processes on this machine."""

    network: LoopbackNetwork
    pools: Annotated[
        Mapping[ResourceName, LocalPool], Field(min_length=1, max_length=MAX_LOCAL_POOLS)
    ]
    models: Mapping[ResourceName, DeploymentSettings]


class FleetSettings(EnvironmentSettings):
    """Machines with accelerators, from a cloud or owned.

    `server_hosts` are the owned machines of the servers; left out, they are only counted.
    `inventory` is a file of the checkout with more owned machines, of servers and pools
    (inventory.py): Environment.settings has them beside those that are listed here. `ssh` says how
    owned machines are reached; without it they can only be planned.
    """

    network: PrivateNetwork
    server_hosts: Annotated[tuple[HostSettings, ...], Field(strict=False)] = ()
    inventory: str | None = None
    ssh: SshSettings | None = None
    snapshots: SnapshotSettings = SnapshotSettings()
    pools: Annotated[
        Mapping[ResourceName, FleetPool], Field(min_length=1, max_length=MAX_FLEET_POOLS)
    ]
    models: Mapping[ResourceName, FleetDeploymentSettings]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    name: str
    settings: EnvironmentSettings
    origin: Origin


def parse_environment(
    values: Mapping[str, Any],
    *,
    name: str,
    source: str,
    origin: Origin | None = None,
    inventory: Iterable[ListedHost] = (),
) -> Environment:
    """Validate the configuration of one environment.

    `values` maps "slipway:<key>" to a value, or to its JSON text as Pulumi hands objects to a
    program; keys of other namespaces ("pulumi:tags", "aws:region") are skipped. `inventory` are
    the hosts of the file that they name. Raises ConfigError with every problem.
    """
    origin = origin or Origin(source=source, namespace=NAMESPACE)
    own = {
        key.removeprefix(NAMESPACE): _decoded(value)
        for key, value in values.items()
        if key.startswith(NAMESPACE) or ":" not in key
    }
    raise_if_any(_target_problems(own, origin))  # the target decides which settings exist
    kind = FleetSettings if own["target"] in FLEETS else DevSettings
    settings = validated(kind, own, origin)
    listed = [*_of_stack_file(settings, origin), *inventory]
    raise_if_any(list(unplaced(listed, settings.pools)))
    settings = _with_hosts(settings, listed)
    raise_if_any(
        [
            *_reference_problems(settings, origin),
            *_contradictions(settings, origin),
            *host_problems(listed, settings.pools, settings.network.cidr),
            *(key_problems(listed, settings.ssh) if isinstance(settings, FleetSettings) else ()),
        ]
    )
    return Environment(name=name, settings=settings, origin=origin)


def _target_problems(values: Mapping[str, Any], origin: Origin) -> list[Problem]:
    target = values.get("target")
    if target in TARGETS:
        return []
    names = ", ".join(f"'{name}'" for name in TARGETS[:-1]) + f" or '{TARGETS[-1]}'"
    if "target" in values:
        fix = suggestion(str(target), TARGETS)
        return [origin.problem(("target",), f"must be {names}", value=target, fix=fix)]
    if misspelt := get_close_matches("target", values, n=1):
        fix = "did you mean `target`?"
        return [origin.problem((misspelt[0],), "unknown key", fix=fix)]
    return [origin.problem(("target",), f"must be {names}", fix="add `target:`")]


def _decoded(value: Any) -> Any:
    """Pulumi passes every value to programs as text: objects, numbers and booleans as JSON."""
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
            ("pools", name), "is a name that Nomad reserves", value=name, fix="rename the pool"
        )
        for name in settings.pools
        if name in RESERVED_POOLS
    ]
    problems += [
        origin.problem(
            ("pools", name),
            "would give its nodes the names of servers",
            value=name,
            fix="rename the pool",
        )
        for name, pool in settings.pools.items()
        if name == "server" and isinstance(pool, LocalPool)
    ]
    return problems


def _contradictions(settings: EnvironmentSettings, origin: Origin) -> list[Problem]:
    """Settings that contradict each other."""
    problems = [
        origin.problem(
            ("models", name, "replicas"),
            "min is greater than max",
            value={"min": deployment.replicas.min, "max": deployment.replicas.max},
            fix=f"raise max to {deployment.replicas.min} or lower min to {deployment.replicas.max}",
        )
        for name, deployment in settings.models.items()
        if deployment.replicas.min > deployment.replicas.max
    ]
    problems += [
        origin.problem(
            ("models", name),
            "must name one `pool`, or some `pools` to choose from",
            value=deployment.model_dump(include={"pool", "pools"}),
            fix=f"e.g. `pool: {next(iter(settings.pools))}`",
        )
        for name, deployment in settings.models.items()
        if isinstance(deployment, FleetDeploymentSettings)
        and (deployment.pool is None) == (not deployment.pools)
    ]
    return [
        *problems,
        *_pool_contradictions(settings, origin),
        *_server_contradictions(settings, origin),
        *_gateway_contradictions(settings, origin),
        *_slot_problems(settings, origin),
        *_budget_contradictions(settings.budget, origin),
    ]


def _pool_contradictions(settings: EnvironmentSettings, origin: Origin) -> list[Problem]:
    problems = [
        origin.problem(
            ("pools", name, "kind"),
            f"is not a pool of target {settings.target}",
            value=pool.kind,
            fix=f"use kind {settings.target}, or change the target",
        )
        for name, pool in settings.pools.items()
        if isinstance(settings, FleetSettings) and pool.kind != settings.target
    ]
    problems += [
        origin.problem(
            ("pools", name, "quota"),
            f"is less than nodes.min, which is {pool.nodes.min}",
            value=pool.quota,
            fix=f"raise the quota to {pool.nodes.min}, or lower nodes.min to {pool.quota}",
        )
        for name, pool in settings.pools.items()
        if isinstance(pool, AwsPool) and pool.quota is not None and pool.quota < pool.nodes.min
    ]
    return [*problems, *_metal_contradictions(settings, origin)]


def _metal_contradictions(settings: EnvironmentSettings, origin: Origin) -> Iterator[Problem]:
    pools = {name: pool for name, pool in settings.pools.items() if isinstance(pool, MetalPool)}
    for name, pool in pools.items():
        if bool(pool.hosts) == (pool.nodes is not None):
            yield origin.problem(
                ("pools", name),
                "has both fixed `hosts` and a number of `nodes`"
                if pool.hosts
                else "has neither `hosts` nor a number of `nodes`",
                value=pool.model_dump(include={"hosts", "nodes"}, exclude_unset=True)
                if pool.hosts
                else None,
                fix="keep `hosts` or `nodes`" if pool.hosts else "add `hosts` or `nodes`",
            )
        if (pool.accelerator is None) != (pool.accelerators_per_node == 0):
            yield origin.problem(
                ("pools", name),
                "must have both `accelerator` and `accelerators_per_node`, or neither",
                fix="add the missing one, or remove the other",
            )
        for key in ("memory", "cpu"):
            if pool.accelerator is not None and getattr(pool, key) is not None:
                yield origin.problem(
                    ("pools", name, key),
                    "applies to pools without accelerators only",
                    value=getattr(pool, key),
                    fix=f"remove `{key}`",
                )
        if pool.accelerator is None and (pool.memory is None or pool.cpu is None):
            yield origin.problem(
                ("pools", name),
                "has no accelerators, so replicas are placed by its nodes' memory and cores",
                fix="add `memory` and `cpu`, e.g. `memory: 64GiB` and `cpu: 32`",
            )


def _server_contradictions(settings: EnvironmentSettings, origin: Origin) -> Iterator[Problem]:
    if not isinstance(settings, FleetSettings) or not settings.server_hosts:
        return
    key = "inventory" if settings.inventory else "server_hosts"
    if settings.target != "metal":
        yield origin.problem((key,), "applies to target metal only", fix=f"remove `{key}`")
    if len(settings.server_hosts) != settings.servers:
        listed = len(settings.server_hosts)
        yield origin.problem(
            (key,),
            f"does not list as many hosts as slipway:servers says, which is {settings.servers}",
            value=listed,
            fix=f"list {settings.servers}, or set slipway:servers to 1, 3 or 5",
        )


def _with_hosts(settings: EnvironmentSettings, listed: Iterable[ListedHost]) -> EnvironmentSettings:
    """The settings with the hosts of the inventory where the stack file may list its own."""
    hosts: dict[str | None, list[HostSettings]] = {}
    for each in listed:
        hosts.setdefault(each.pool, []).append(each.host)
    if not hosts:
        return settings
    pools = {
        name: pool.model_copy(update={"hosts": tuple(hosts[name])}) if name in hosts else pool
        for name, pool in settings.pools.items()
    }
    servers = tuple(hosts.get(None, ()))
    return settings.model_copy(update={"pools": pools, "server_hosts": servers})


def _gateway_contradictions(settings: EnvironmentSettings, origin: Origin) -> Iterator[Problem]:
    shared = settings.gateway.address
    if shared is None:
        return
    path = ("gateway", "address")
    pool = settings.pools.get(settings.gateway.pool)
    owners = {host.address: f"host {host.name}" for host in listed_hosts(settings)}
    network = ipaddress.IPv4Network(settings.network.cidr)
    if not isinstance(pool, MetalPool) or not pool.hosts:
        yield origin.problem(
            path, "needs a gateway pool that lists its `hosts`", value=shared, fix="remove it"
        )
    elif shared in owners:
        yield origin.problem(
            path,
            f"is the address of {owners[shared]}",
            value=shared,
            fix="choose an address that no host has",
        )
    elif ipaddress.IPv4Address(shared) not in network:
        yield origin.problem(
            path,
            f"is outside the network, which is {network}",
            value=shared,
            fix="choose a free address inside it: hosts of one network can take it over",
        )


def listed_hosts(settings: EnvironmentSettings) -> tuple[HostSettings, ...]:
    """Every machine that the environment names: servers and hosts of pools."""
    return tuple(host for _, _, host in _hosts_by_key(settings))


def _of_stack_file(settings: EnvironmentSettings, origin: Origin) -> list[ListedHost]:
    return [
        ListedHost(host=host, pool=pool, origin=origin, path=path)
        for path, pool, host in _hosts_by_key(settings)
    ]


def _hosts_by_key(
    settings: EnvironmentSettings,
) -> Iterator[tuple[KeyPath, str | None, HostSettings]]:
    """(key, pool, host), without a pool for servers."""
    if isinstance(settings, FleetSettings):
        for index, host in enumerate(settings.server_hosts):
            yield ("server_hosts", index), None, host
    for name, pool in settings.pools.items():
        if isinstance(pool, MetalPool):
            for index, host in enumerate(pool.hosts):
                yield ("pools", name, "hosts", index), name, host


def _slot_problems(settings: EnvironmentSettings, origin: Origin) -> Iterator[Problem]:
    """If only some pools had slots, the others would still move with their position."""
    pools = {name: pool for name, pool in settings.pools.items() if isinstance(pool, LocalPool)}
    free = _free_slots(settings.network.cidr, pools.values())
    owners: dict[int, str] = {}
    for name, pool in pools.items():
        if pool.slot is None:
            continue
        if pool.first_address is not None:
            yield origin.problem(
                ("pools", name, "slot"),
                f"contradicts first_address, which is {pool.first_address}",
                value=pool.slot,
                fix="keep one of the two",
            )
        if pool.slot in owners:
            yield origin.problem(
                ("pools", name, "slot"),
                f"is already the slot of pool {owners[pool.slot]}",
                value=pool.slot,
                fix=f"use a free one, e.g. {next(free)}",
            )
        owners.setdefault(pool.slot, name)
    if not owners:
        return
    for name, pool in pools.items():
        if pool.slot is None and pool.first_address is None:
            yield origin.problem(
                ("pools", name),
                f"has no slot, but pool {next(iter(owners.values()))} has one",
                value=pool.model_dump(exclude_unset=True),
                fix=f"add a free one, e.g. `slot: {next(free)}`, or remove all slots",
            )


def _free_slots(cidr: str, pools: Iterable[LocalPool]) -> Iterator[int]:
    """The slots inside the network that no pool has, lowest first: enough for every other pool,
    since the smallest network has a slot for each of the most pools."""
    slots = ipaddress.IPv4Network(cidr).num_addresses // ADDRESSES_PER_POOL
    taken = {pool.slot for pool in pools}
    return (slot for slot in range(1, slots) if slot not in taken)


def _budget_contradictions(budget: BudgetSettings, origin: Origin) -> list[Problem]:
    least, most = budget.usd_per_hour, budget.usd_per_hour_at_most
    if least is None or most is None or least <= most:
        return []
    return [
        origin.problem(
            ("budget",),
            "usd_per_hour is greater than usd_per_hour_at_most",
            value={"usd_per_hour": least, "usd_per_hour_at_most": most},
            fix=f"raise usd_per_hour_at_most to {least:g}, or remove one of the two",
        )
    ]


def _pool_references(settings: EnvironmentSettings) -> list[tuple[tuple[str, ...], str]]:
    references: list[tuple[tuple[str, ...], str]] = []
    for name, deployment in settings.models.items():
        if deployment.pool is not None:
            references.append((("models", name, "pool"), deployment.pool))
        if isinstance(deployment, FleetDeploymentSettings):
            references += [(("models", name, "pools"), pool) for pool in deployment.pools]
    return [*references, (("gateway", "pool"), settings.gateway.pool)]
