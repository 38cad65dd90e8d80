"""Target `dev`: processes on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import Count, ResourceName, SizeBytes, invalid
from .document import Origin
from .errors import Problem
from .fabric import LocalFabric, LoopbackFabric, interface_problems
from .settings import Deployment, EnvironmentSettings, NetworkSettings, PoolSettings

LOOPBACK = IPv4Network("127.0.0.0/8")
# Slot 0 belongs to the servers; the largest network, a /8, has more slots than anybody needs.
Slot = Annotated[int, Field(ge=1, le=4095)]
ADDRESSES_PER_POOL = 16  # of the environment's network
MAX_NODES = ADDRESSES_PER_POOL
MAX_POOLS = 15  # of 16 addresses each in a /24, after the servers' 16


def _loopback_network(text: str) -> str:
    fix = "use a private part of the loopback range, e.g. 127.77.0.0/24"
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise invalid(f"is not an IPv4 network: {error}", fix=fix) from None
    if not network.subnet_of(LOOPBACK):
        raise invalid(f"must be inside {LOOPBACK}", fix=fix)
    if network.prefixlen > 24:
        raise invalid("must be a /24 or larger", fix=fix)
    if network.network_address == LOOPBACK.network_address:
        raise invalid("would give a server 127.0.0.1, which the machine itself uses", fix=fix)
    return text


class LoopbackNetwork(NetworkSettings):
    EXAMPLE = "{cidr: 127.77.0.0/24}"
    cidr: Annotated[str, AfterValidator(_loopback_network)]


class LocalPool(PoolSettings):
    """Processes on this machine. `memory` and `cpu` (cores) are what one node offers to tasks.

    `slot` selects the nodes' 16 addresses in the network, starting at 16 x slot.
    """

    TAG = "local"
    EXAMPLE = "{kind: local, nodes: 2, slot: 1}"
    kind: Literal["local"]
    nodes: Annotated[int, Field(ge=1, le=MAX_NODES)]
    memory: SizeBytes | None = None
    cpu: Count | None = None
    slot: Slot | None = None
    first_address: str | None = None
    fabric: LoopbackFabric = LocalFabric()


class DeploymentSettings(Deployment):
    """A model on a pool."""

    EXAMPLE = "{pool: cpu, replicas: {min: 1, max: 2}}"
    pool: ResourceName

    @property
    def named_pools(self) -> Sequence[tuple[str, str]]:
        return (("pool", self.pool),)


class DevSettings(EnvironmentSettings):
    target: Literal["dev"]
    network: LoopbackNetwork
    pools: Annotated[Mapping[ResourceName, LocalPool], Field(min_length=1, max_length=MAX_POOLS)]
    models: Mapping[ResourceName, DeploymentSettings]

    def problems(self, origin: Origin) -> Iterator[Problem]:
        yield from super().problems(origin)
        if "server" in self.pools:
            yield origin.problem(
                ("pools", "server"),
                "would give its nodes the names of servers",
                value="server",
                fix="rename the pool",
            )
        yield from _slot_problems(self.pools, self.network.cidr, origin)
        for name, pool in self.pools.items():
            yield from interface_problems(pool.fabric, ("pools", name, "fabric"), origin)


def _slot_problems(pools: Mapping[str, LocalPool], cidr: str, origin: Origin) -> Iterator[Problem]:
    """If only some pools had slots, the others would still move with their position."""
    free = _free_slots(cidr, pools.values())
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
    slots = IPv4Network(cidr).num_addresses // ADDRESSES_PER_POOL
    taken = {pool.slot for pool in pools}
    return (slot for slot in range(1, slots) if slot not in taken)
