"""Whether every node of the elastic pools finds an address in its zone's subnet. Pure.

AWS starts a pool's nodes where it has instances of its type. That may be one of its zones alone, so
all of them must fit in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network

from slipway.config.aws import LARGEST_NETWORK, AwsSettings
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.plan.aws import AwsPool

from .aws_network import ELASTIC_BITS, RESERVED

NODES_PER_SPARE = 10  # a refresh starts a tenth of the nodes before their predecessors leave


def elastic_addresses(prefix: int) -> int:
    """How many nodes can have an address in one zone of a network with such a prefix."""
    return (1 << (32 - prefix - ELASTIC_BITS)) - RESERVED


def addresses(pool: AwsPool, nodes: int) -> int:
    """What a pool of so many nodes takes, those included that a refresh starts. Nodes of a
    reservation leave before others come."""
    spare = 0 if pool.reservation else -(-nodes // NODES_PER_SPARE)
    return (nodes + spare) * sum(each.kind != "efa-only" for each in pool.interfaces)


def subnet_problems(
    settings: AwsSettings, pools: Mapping[str, AwsPool], origin: Origin
) -> Iterator[Problem]:
    """One per set of pools that share a subnet, at the pool that takes the most of it."""
    zones = sorted({zone for pool in pools.values() for zone in pool.zones}, reverse=True)
    sharing = {
        tuple(sorted(name for name, pool in pools.items() if zone in pool.zones)): zone
        for zone in zones
    }
    network = IPv4Network(settings.network.cidr)
    there = elastic_addresses(network.prefixlen)
    for names, zone in sharing.items():
        nodes = {name: settings.bought[name].nodes_max for name in names}
        taken = {name: addresses(pools[name], nodes[name]) for name in names}
        excess = sum(taken.values()) - there
        if excess > 0:
            largest = max(names, key=lambda name: taken[name])
            fewer = _nodes_within(pools[largest], taken[largest] - excess)
            yield origin.problem(
                ("pools", largest, "nodes", "max"),
                f"is more than the network has addresses for: {_takes(taken)} in {zone}, whose"
                f" subnet for elastic pools has {there}",
                value=nodes[largest],
                fix=_advice(names, fewer, network, sum(taken.values())),
            )


def _nodes_within(pool: AwsPool, room: int) -> int:
    """The most nodes of a pool that take so many addresses."""
    return max((nodes for nodes in range(room + 1) if addresses(pool, nodes) <= room), default=0)


def _takes(taken: Mapping[str, int]) -> str:
    each = " and ".join(f"{count} of pool {name}" for name, count in taken.items())
    return f"it takes {each}, a tenth to spare for refreshes included,"


def _advice(pools: Iterable[str], fewer: int, network: IPv4Network, needed: int) -> str:
    lower = f"lower it to {fewer}" if fewer else f"lower nodes.max of {' and '.join(pools)}"
    larger = next(
        (
            prefix
            for prefix in range(network.prefixlen - 1, LARGEST_NETWORK - 1, -1)
            if elastic_addresses(prefix) >= needed
        ),
        None,
    )
    if larger is None:
        return f"{lower}: AWS has no larger network"
    return (
        f"{lower}; or, before the environment is built, set slipway:network.cidr to"
        f" {network.supernet(new_prefix=larger)}"
    )
