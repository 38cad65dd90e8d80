"""Addresses and ports: fixed by a pool's slot and a node's number, final at preview.

In the environment's network servers have .1 to .5 and the k-th node of the pool in slot s has
.(16·s + k), unless the pool gives its first address. Where no pool has a slot, the i-th by name has
slot 1 + i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from slipway.config.dev import ADDRESSES_PER_POOL, DevSettings, LocalPool
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.hosts import HostSettings
from slipway.plan.platform import Node, Server

UNKNOWN_ADDRESS = ""

# Below the kernel's ephemeral range, which starts at 32768. Every node has its own address, so all
# use the same range. It is wide because Nomad may give a new replica the ports of one that still
# drains (hashicorp/nomad issue 24904), more often with fewer ports.
FIRST_PORT, LAST_PORT = 20000, 31999


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    servers: tuple[Server, ...]
    nodes: Mapping[str, tuple[Node, ...]]  # by pool
    problems: tuple[Problem, ...]


def lay_out(settings: DevSettings, origin: Origin) -> Layout:
    """Give every host an address in the network."""
    network = IPv4Network(settings.network.cidr)
    servers = _servers(settings.servers, lambda k: str(network[1 + k]))
    taken = {server.address: server.name for server in servers}
    nodes: dict[str, tuple[Node, ...]] = {}
    problems: list[Problem] = []
    positions = slots_by_position(settings.pools)
    for name, pool in sorted(settings.pools.items()):
        try:
            first = _first_address(pool, network, pool.slot or positions[name])
        except AddressValueError:
            problems.append(_unusable(origin, name, pool, "is not an IPv4 address", network))
            continue
        nodes[name] = _nodes(name, pool.nodes, first)
        problems.extend(_clashes(nodes[name], pool, network, taken, origin))
        taken.update((node.address, node.name) for node in nodes[name])
    return Layout(servers=servers, nodes=nodes, problems=tuple(problems))


def fleet_servers(count: int, listed: Sequence[HostSettings]) -> tuple[Server, ...]:
    """The listed hosts; without a list, servers on hosts that are not known before they exist."""
    if not listed:
        return _servers(count, lambda _: UNKNOWN_ADDRESS)
    return tuple(Server(name=host.name, address=host.address) for host in listed)


def listed_nodes(pool: str, hosts: Iterable[HostSettings]) -> tuple[Node, ...]:
    """The nodes of a pool whose hosts are listed."""
    return tuple(_node(host.name, pool, host.address) for host in hosts)


def _servers(count: int, address: Callable[[int], str]) -> tuple[Server, ...]:
    return tuple(Server(name=f"server-{k}", address=address(k)) for k in range(count))


def slots_by_position(pools: Iterable[str]) -> dict[str, int]:
    """The slots of pools that do not state one."""
    return {name: 1 + index for index, name in enumerate(sorted(pools))}


def slot_of(address: str, cidr: str) -> int:
    """The slot that an address of the network belongs to."""
    offset = int(IPv4Address(address)) - int(IPv4Network(cidr).network_address)
    return offset // ADDRESSES_PER_POOL


def slot_hint(settings: DevSettings, origin: Origin) -> Iterator[str]:
    """The lines to add to a file whose pools get their addresses by position, if any."""
    moving = {name: pool for name, pool in settings.pools.items() if pool.first_address is None}
    if not moving or any(pool.slot is not None for pool in moving.values()):
        return
    positions = slots_by_position(settings.pools)
    lines = ", ".join(f"pools.{name}.slot: {positions[name]}" for name in sorted(moving))
    yield (
        "pools get their addresses by alphabetical position, so adding, renaming or removing one"
        f" moves others; to keep the addresses, add to {origin.source}: {lines}"
    )


def _first_address(pool: LocalPool, network: IPv4Network, slot: int) -> IPv4Address:
    if pool.first_address is not None:
        return IPv4Address(pool.first_address)
    return network.network_address + ADDRESSES_PER_POOL * slot


def _nodes(pool: str, count: int, first: IPv4Address) -> tuple[Node, ...]:
    return tuple(_node(f"{pool}-{k}", pool, str(first + k)) for k in range(count))


def _node(name: str, pool: str, address: str) -> Node:
    return Node(
        name=name,
        pool=pool,
        address=address,
        min_dynamic_port=FIRST_PORT,
        max_dynamic_port=LAST_PORT,
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
    if pool.slot is not None:
        last = network.num_addresses // ADDRESSES_PER_POOL - 1
        return origin.problem(
            ("pools", name, "slot"),
            reason,
            value=pool.slot,
            fix=f"use a free slot from 1 to {last}",
        )
    return origin.problem(
        ("pools", name, "first_address"),
        reason,
        value=pool.first_address,
        fix=f"choose {pool.nodes} free addresses inside {network}, or leave the key out",
    )
