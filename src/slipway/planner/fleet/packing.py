"""How replicas share nodes: by devices, and by memory, cores and ports.

Where devices run out first, they are packed tightest first, and nodes are only counted. Else every
node is looked at, because the gateway takes a part of some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slipway.plan.platform import Node
from slipway.planner.peers import proxy_memory_bytes
from slipway.planner.placement import Placement, Resources, place
from slipway.planner.replica import PORTS, whole_mib
from slipway.planner.supply.addresses import FIRST_PORT, LAST_PORT
from slipway.planner.supply.supply import Supply
from slipway.planner.units import GIB, MIB

from .placed import Count, Placed, at_maximum, in_use

# Reserved on each of the gateway's nodes for Envoy, xDS, Prometheus and the Autoscaler: 64 + 97 +
# 38 MB and a Python process, measured idle (2026-11-21), with room for their caches to grow.
PLATFORM_JOBS = Resources(memory_bytes=GIB, cpu_mhz=500, ports=0)
# Reserved in addition on machines of their own, for keepalived and the job that takes snapshots.
JOBS_OF_HOSTS = Resources(memory_bytes=192 * MIB, cpu_mhz=100, ports=0)


def pool_placement(
    supply: Supply,
    placed: Iterable[Placed],
    replicas: Count = at_maximum,
) -> Placement:
    """The placement of `replicas` of each of the pool's models. A replica over several nodes takes
    the same share of each, and is counted once per node."""
    models = in_use(supply, placed)
    return place(
        _offers(supply),
        {each.demand.model: (needs(each), replicas(each)) for each in models},
        members={each.demand.model: hosts_of(each) for each in models},
    )


def needs(placed: Placed) -> Resources:
    """What one replica takes from each of its nodes."""
    option, supply = placed.option, placed.option.supply
    size = supply.accelerators_per_node
    devices = option.layout.devices_on_each_node(size) if size else 0
    share = option.on_processors or placed.demand.engine.host_share(devices)
    return Resources(
        memory_bytes=whole_mib(share.host_memory_bytes) + proxy_memory_bytes(supply),
        cpu_mhz=share.cpu_mhz,  # includes the proxy's
        ports=len(PORTS),
        devices=devices,
    )


def hosts_of(placed: Placed) -> int:
    """The hosts of one replica."""
    return placed.option.supply.hosts_of(placed.option.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """`unplaced` counts the replicas that fit on no node."""

    nodes: int
    unplaced: int = 0


def pack(supply: Supply, models: list[Placed], replicas: Count) -> Packed:
    """The nodes with accelerators that these replicas need."""
    if _devices_run_out_first(supply, models):
        return Packed(nodes=nodes_for_devices(supply, models, replicas))
    placement = pool_placement(supply, models, replicas)
    return Packed(
        nodes=sum(1 for found in placement.replicas.values() if found),
        unplaced=sum(placement.unplaced.values()),
    )


def _devices_run_out_first(supply: Supply, models: list[Placed]) -> bool:
    """Whether a node whose devices are all taken has enough memory and cores for them, whichever
    replicas took them: then only devices need to be counted."""
    if not supply.node_memory_bytes or not supply.node_cpu_mhz:
        return True
    least = _node_of_the_gateway(supply) if supply.holds_gateway else _node(supply)
    size = supply.accelerators_per_node
    # A fleet has thousands of replicas, but few distinct shapes.
    shapes = {
        (each.demand.engine, each.option.layout.devices_on_each_node(size)): each for each in models
    }
    return all(
        need.memory_bytes * size <= least.memory_bytes * need.devices
        and need.cpu_mhz * size <= least.cpu_mhz * need.devices
        for need in map(needs, shapes.values())
    )


def nodes_needed(supply: Supply, placed: Iterable[Placed], replicas: Count) -> int:
    """The nodes of the pool that these replicas take, and the gateway if the pool holds it."""
    if supply.accelerator is not None:
        return pack(supply, in_use(supply, placed), replicas).nodes
    found = pool_placement(supply, placed, replicas).replicas
    first = next(iter(found)) if supply.holds_gateway else None
    return sum(1 for node, models in found.items() if models or node == first)


def nodes_for_devices(supply: Supply, models: Iterable[Placed], replicas: Count) -> int:
    """The nodes with accelerators that these replicas need, packed by best-fit decreasing.

    A replica over several nodes takes all devices of each.
    """
    size = supply.accelerators_per_node
    nodes, parts = 0, Counter[int]()
    for model in models:
        layout = model.option.layout
        parts[layout.devices_on_each_node(size)] += layout.nodes(size) * replicas(model)
    shared = Counter[int]()  # free devices -> nodes with that many
    for part in sorted(parts, reverse=True):
        while left := parts[part]:
            rooms = (free for free, count in shared.items() if count and free >= part)
            room = min(rooms, default=size)
            if not shared[room]:
                shared[size] = -(-left // (size // part))
                nodes += shared[size]
            # The node with the least room stays that until it is full.
            taken = min(left, room // part)
            filled = min(shared[room], left // taken)
            shared[room] -= filled
            shared[room - taken * part] += filled
            parts[part] -= taken * filled
    return nodes


def devices(models: Iterable[Placed], replicas: Count) -> int:
    return sum(each.option.layout.devices * replicas(each) for each in models)


def _offers(supply: Supply) -> Mapping[str, Resources]:
    offers = dict.fromkeys(_node_names(supply), _node(supply))
    if supply.holds_gateway:
        # Where hosts are not known yet, the first one has the only Envoy.
        for name in [host.name for host in supply.gateway_hosts] or list(offers)[:1]:
            offers[name] = _node_of_the_gateway(supply)
    return offers


def _node(supply: Supply) -> Resources:
    return Resources(
        memory_bytes=supply.node_memory_bytes,
        cpu_mhz=supply.node_cpu_mhz,
        ports=LAST_PORT - FIRST_PORT + 1,
        devices=supply.accelerators_per_node,
    )


def _node_of_the_gateway(supply: Supply) -> Resources:
    left = _node(supply) - PLATFORM_JOBS
    return left - JOBS_OF_HOSTS if supply.hosts and not supply.on_loopback else left


def _node_names(supply: Supply) -> list[str]:
    """The nodes of an elastic pool have no names yet; only their order matters."""
    known: tuple[Node, ...] = supply.hosts
    return [node.name for node in known] or [str(number) for number in range(supply.nodes_max)]
