"""The network of an environment on AWS: which subnet and address is whose. Pure.

A zone's place in the network follows from its letter, so that no other zone moves it. Of a zone's
eighth of the network, one half is for elastic pools, whose addresses AWS gives. The other half has
subnets of a sixteenth each: `hosts`, where nothing but fixed hosts have addresses, so that none of
them is ever taken; `services`, for interface endpoints and load balancers; and `public`, for the
NAT gateway alone.

A fixed host's address follows from its zone, its group's slot (16 addresses) and its number.
Servers have slot 0, the gateway's pool slot 1, another fixed pool what its name or `slot` says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network

from slipway.config.aws import MOST_FIXED_NODES, ZONES_IN_TURN
from slipway.config.aws_cloud import ZONE_LETTERS
from slipway.plan.aws import AwsZone

ZONE_BITS = 3  # eight zones
SMALL_SUBNET_BITS = ZONE_BITS + 4
ELASTIC_BITS = ZONE_BITS + 1
SLOT_ADDRESSES = MOST_FIXED_NODES
# AWS keeps the first four addresses of a subnet and the last one.
RESERVED_FIRST, RESERVED = 4, 5
SERVERS_SLOT, GATEWAY_SLOT, FIRST_FREE_SLOT = range(3)


def zone_network(cidr: str, zone: str) -> AwsZone:
    """The subnets of a zone in the network `cidr`, whose prefix has 16 to 19 bits."""
    whole = IPv4Network(cidr)
    own = _part(whole, ZONE_BITS, ZONE_LETTERS.index(zone[-1]))
    hosts, services, public = (_part(own, SMALL_SUBNET_BITS - ZONE_BITS, k) for k in range(3))
    return AwsZone(
        name=zone,
        hosts=str(hosts),
        services=str(services),
        public=str(public),
        elastic=str(_part(own, ELASTIC_BITS - ZONE_BITS, 1)),
    )


def slots(cidr: str) -> int:
    """How many groups of fixed hosts a zone's subnet has addresses for: 4 of the smallest
    network, 32 of the largest."""
    addresses = 1 << (32 - IPv4Network(cidr).prefixlen - SMALL_SUBNET_BITS)
    return addresses // SLOT_ADDRESSES


def slot_of_name(pool: str, cidr: str) -> int:
    """The slot of a fixed pool that states none. Two names may have the same one."""
    free = slots(cidr) - FIRST_FREE_SLOT
    return FIRST_FREE_SLOT + zlib.crc32(pool.encode()) % free


def zones_in_turn(zones: Sequence[str], count: int) -> Iterator[str]:
    """The zones of a group's hosts by their numbers: one, or three in turn. A group has at least as
    many zones as hosts, up to three, so that neither a further zone nor a further host moves one.
    """
    turn = zones[:ZONES_IN_TURN]
    return (turn[number % len(turn)] for number in range(count))


def fixed_address(cidr: str, zone: str, *, slot: int, number: int) -> str:
    """The address of the `number`th host of a group in a zone. ValueError if the slot ends before
    it, or the subnet before the slot."""
    first = RESERVED_FIRST if slot == SERVERS_SLOT else 0
    subnet = IPv4Network(zone_network(cidr, zone).hosts)
    offset = SLOT_ADDRESSES * slot + first + number
    if first + number >= SLOT_ADDRESSES or offset >= subnet.num_addresses - 1:
        raise ValueError(f"{subnet} has no address for host {number} of slot {slot}")
    return str(subnet.network_address + offset)


def _part(network: IPv4Network, bits: int, place: int) -> IPv4Network:
    """The `place`th of the parts whose prefix is longer by `bits`."""
    size = 1 << (32 - network.prefixlen - bits)
    first = IPv4Address(int(network.network_address) + place * size)
    return IPv4Network((first, network.prefixlen + bits))
