"""The fixed hosts of an environment on AWS: their names, zones and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slipway.config.aws import SERVER, AwsPool, AwsSettings
from slipway.config.document import Origin
from slipway.config.errors import Problem, raise_if_any
from slipway.config.hosts import HostSettings
from slipway.plan.platform import Node

from .addresses import listed_nodes
from .aws_network import (
    FIRST_FREE_SLOT,
    GATEWAY_SLOT,
    SERVERS_SLOT,
    SLOT_ADDRESSES,
    fixed_address,
    slot_of_name,
    slots,
    zones_in_turn,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedHosts:
    """`zones` by host. Empty where the environment can only be planned."""

    servers: tuple[HostSettings, ...] = ()
    pools: Mapping[str, tuple[HostSettings, ...]] = field(default_factory=dict)
    zones: Mapping[str, str] = field(default_factory=dict)

    @property
    def listed(self) -> tuple[HostSettings, ...]:
        """All of them, servers first."""
        return (*self.servers, *(host for pool in self.pools.values() for host in pool))

    def nodes(self, pool: str) -> tuple[Node, ...]:
        return listed_nodes(pool, self.pools.get(pool, ()))


def fixed_hosts(settings: AwsSettings, origin: Origin) -> FixedHosts:
    """Raises ConfigError with pools that want the same addresses, or more than there are."""
    if settings.aws is None:
        return FixedHosts()
    fixed = {name: pool for name, pool in settings.bought.items() if pool.fixed}
    slot_of = {name: _slot(name, pool, settings) for name, pool in fixed.items()}
    raise_if_any([*_slot_problems(fixed, slot_of, settings.network.cidr, origin)])
    groups: dict[str, tuple[int, Sequence[str], int]] = {
        SERVER: (settings.servers, settings.aws.zones, SERVERS_SLOT)
    }
    for name, pool in fixed.items():
        groups[name] = (
            pool.fixed,
            (pool.zone,) if pool.zone else settings.aws.zones,
            slot_of[name],
        )
    placed = {
        group: [*_placed(settings.network.cidr, group, zones, count, slot)]
        for group, (count, zones, slot) in groups.items()
    }
    hosts = {group: tuple(host for host, _ in found) for group, found in placed.items()}
    return FixedHosts(
        servers=hosts[SERVER],
        pools={name: hosts[name] for name in fixed},
        zones={host.name: zone for found in placed.values() for host, zone in found},
    )


def _placed(
    cidr: str, group: str, zones: Sequence[str], count: int, slot: int
) -> Iterator[tuple[HostSettings, str]]:
    """Each host, and its zone."""
    for number, zone in enumerate(zones_in_turn(zones, count)):
        address = fixed_address(cidr, zone, slot=slot, number=number)
        yield HostSettings(name=f"{group}-{number}", address=address), zone


def _slot(name: str, pool: AwsPool, settings: AwsSettings) -> int:
    if name == settings.gateway.pool:
        return GATEWAY_SLOT
    return pool.slot or slot_of_name(name, settings.network.cidr)


def _slot_problems(
    fixed: Mapping[str, AwsPool], slot_of: Mapping[str, int], cidr: str, origin: Origin
) -> Iterator[Problem]:
    """Of two pools with one slot, the one that states none is told to state another."""
    number, owners = slots(cidr), dict[int, str]()
    free = (each for each in range(FIRST_FREE_SLOT, number) if each not in slot_of.values())
    for name in sorted(slot_of, key=lambda name: (fixed[name].slot is None, name)):
        slot = slot_of[name]
        wrong = _wrong(fixed[name].fixed, slot, number, owners.get(slot, ""))
        if not wrong:
            owners[slot] = name
            continue
        other = next(free, None)
        yield origin.problem(
            ("pools", name, "slot"),
            wrong,
            value=slot,
            fix="use a larger slipway:network, or fewer fixed pools"
            if other is None
            else f"set `slot: {other}` of the pool that has no hosts yet",
        )


def _wrong(hosts: int, slot: int, number: int, owner: str) -> str:
    """What is wrong with the slot of a pool with so many hosts; "" if nothing is."""
    if slot >= number:
        return f"is beyond the {number} slots that the network has in each zone"
    if owner:
        return f"is also the slot of pool {owner}: a slot is for one pool"
    room = SLOT_ADDRESSES - (slot == number - 1)  # AWS keeps the last address of the subnet
    return f"has {room} addresses, and the pool {hosts} hosts" if hosts > room else ""
