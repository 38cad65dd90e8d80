"""Addresses and ports: fixed by the position of a pool and a node, final at preview.

In the environment's network servers have .1 to .3 and the k-th node of the i-th pool (by name)
has .(16 + 16·i + k), unless the pool gives its first address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from slipway.config.document import Origin
from slipway.config.environment import DevSettings
from slipway.config.errors import Problem
from slipway.config.pools import LocalPool
from slipway.plan.platform import Node, Server

ADDRESSES_PER_POOL = 16

# Below the kernel's ephemeral range, 32768 upwards. The same for every node, since each has an
# address of its own, and all of it: Nomad gives a new replica ports of one that still drains
# (hashicorp/nomad issue 24904), the more often the fewer there are.
FIRST_PORT, LAST_PORT = 20000, 31999


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    servers: tuple[Server, ...]
    nodes: Mapping[str, tuple[Node, ...]]  # by pool
    problems: tuple[Problem, ...]


def lay_out(settings: DevSettings, origin: Origin) -> Layout:
    """Give every host an address of the network."""
    network = IPv4Network(settings.network.cidr)
    servers = tuple(
        Server(name=f"server-{k}", address=str(network[1 + k])) for k in range(settings.servers)
    )
    taken = {server.address: server.name for server in servers}
    nodes: dict[str, tuple[Node, ...]] = {}
    problems: list[Problem] = []
    for index, name in enumerate(sorted(settings.pools)):
        pool = settings.pools[name]
        try:
            first = _first_address(pool, network, index)
        except AddressValueError:
            problems.append(_unusable(origin, name, pool, "is not an IPv4 address", network))
            continue
        nodes[name] = _nodes(name, pool.nodes, first)
        problems.extend(_clashes(nodes[name], pool, network, taken, origin))
        taken.update((node.address, node.name) for node in nodes[name])
    return Layout(servers=servers, nodes=nodes, problems=tuple(problems))


def _first_address(pool: LocalPool, network: IPv4Network, index: int) -> IPv4Address:
    if pool.first_address is not None:
        return IPv4Address(pool.first_address)
    return network[ADDRESSES_PER_POOL * (1 + index)]


def _nodes(pool: str, count: int, first: IPv4Address) -> tuple[Node, ...]:
    return tuple(
        Node(
            name=f"{pool}-{k}",
            pool=pool,
            address=str(first + k),
            min_dynamic_port=FIRST_PORT,
            max_dynamic_port=LAST_PORT,
        )
        for k in range(count)
    )


def _clashes(
    nodes: tuple[Node, ...],
    pool: LocalPool,
    network: IPv4Network,
    taken: Mapping[str, str],
    origin: Origin,
) -> list[Problem]:
    problems = []
    for node in nodes:
        if IPv4Address(node.address) not in network:
            reason = f"puts {node.name} at {node.address}, outside the network"
        elif node.address in taken:
            reason = f"puts {node.name} at {node.address}, where {taken[node.address]} is"
        else:
            continue
        problems.append(_unusable(origin, node.pool, pool, reason, network))
    return problems


def _unusable(
    origin: Origin, name: str, pool: LocalPool, reason: str, network: IPv4Network
) -> Problem:
    return origin.problem(
        ("pools", name, "first_address"),
        reason,
        value=pool.first_address,
        fix=f"choose {pool.nodes} free addresses inside {network}, or leave the key out",
    )
