"""The fixed hosts of an environment on AWS: their names, zones and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slipway.config.aws import AwsPool, AwsSettings
from slipway.config.document import Origin
from slipway.config.errors import Problem, raise_if_any
from slipway.plan.platform import Node

from .addresses import FIRST_PORT, LAST_PORT
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
class PlacedHost:
    """A machine with a zone and an address in that zone's subnet of fixed hosts."""

    name: str
    zone: str  # "us-east-1a"
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedHosts:
    """Empty where the environment can only be planned."""

    servers: tuple[PlacedHost, ...] = ()
    pools: Mapping[str, tuple[PlacedHost, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> Mapping[str, tuple[Node, ...]]:
        """The hosts of fixed pools as nodes, by pool."""
        return {
            pool: tuple(
                Node(
                    name=host.name,
                    pool=pool,
                    address=host.address,
                    min_dynamic_port=FIRST_PORT,
                    max_dynamic_port=LAST_PORT,
                )
                for host in hosts
            )
            for pool, hosts in self.pools.items()
        }


def fixed_hosts(settings: AwsSettings, origin: Origin) -> FixedHosts:
    """Raises ConfigError with pools that want the same addresses, or more than there are."""
    if settings.aws is None:
        return FixedHosts()
    fixed = {name: pool for name, pool in settings.bought.items() if pool.fixed}
    slot_of = {name: _slot(name, pool, settings) for name, pool in fixed.items()}
    raise_if_any([*_slot_problems(fixed, slot_of, settings.network.cidr, origin)])
    cidr, zones = settings.network.cidr, settings.aws.zones
    return FixedHosts(
        servers=_hosts(cidr, "server", zones, settings.servers, SERVERS_SLOT),
        pools={
            name: _hosts(cidr, name, [pool.zone] if pool.zone else zones, pool.fixed, slot_of[name])
            for name, pool in fixed.items()
        },
    )


def _hosts(
    cidr: str, group: str, zones: Sequence[str], count: int, slot: int
) -> tuple[PlacedHost, ...]:
    return tuple(
        PlacedHost(
            name=f"{group}-{number}",
            zone=zone,
            address=fixed_address(cidr, zone, slot=slot, number=number),
        )
        for number, zone in enumerate(zones_in_turn(zones, count))
    )


def _slot(name: str, pool: AwsPool, settings: AwsSettings) -> int:
    if name == settings.gateway.pool:
        return GATEWAY_SLOT
    return pool.slot or slot_of_name(name, settings.network.cidr)


def _slot_problems(
    fixed: Mapping[str, AwsPool], slot_of: Mapping[str, int], cidr: str, origin: Origin
) -> Iterator[Problem]:
    number = slots(cidr)
    owners: dict[int, str] = {}
    for name, slot in sorted(slot_of.items()):
        # The last slot ends with an address that AWS keeps.
        room = SLOT_ADDRESSES - (slot == number - 1)
        if slot >= number:
            wrong = f"is beyond the {number} slots that {cidr} has in each zone"
        elif slot in owners:
            wrong = f"is also the slot of pool {owners[slot]}: their hosts would have one address"
        elif fixed[name].fixed > room:
            wrong = f"has {room} addresses, and the pool {fixed[name].fixed} hosts"
        else:
            owners[slot] = name
            continue
        free = next(
            (each for each in range(FIRST_FREE_SLOT, number) if each not in slot_of.values()), None
        )
        yield origin.problem(
            ("pools", name, "slot"),
            wrong,
            value=slot,
            fix=f"set `slot: {free}`"
            if free
            else "use a larger slipway:network, or fewer fixed pools",
        )
