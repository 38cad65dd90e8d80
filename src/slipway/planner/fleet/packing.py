"""How replicas share nodes: by devices, or without accelerators by memory, cores and ports.

Devices are packed tightest first: nodes are only counted. Without accelerators every node is looked
at, because the gateway takes a part of some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

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
    """The placement of `replicas` of each of the pool's models."""
    return place(
        _offers(supply),
        {each.demand.model: (needs(each), replicas(each)) for each in in_use(supply, placed)},
    )


def needs(placed: Placed) -> Resources:
    """What one replica on processors takes from a node."""
    replica, supply = placed.option.on_processors, placed.option.supply
    assert replica is not None, "runs on processors"  # noqa: S101
    return Resources(
        memory_bytes=whole_mib(replica.host_memory_bytes) + proxy_memory_bytes(supply),
        cpu_mhz=replica.cpu_mhz,  # includes the proxy's
        ports=len(PORTS),
    )


def nodes_needed(supply: Supply, placed: Iterable[Placed], replicas: Count) -> int:
    """The nodes of the pool that these replicas take, and the gateway if the pool holds it."""
    if supply.accelerator is not None:
        return nodes_for_devices(supply, in_use(supply, placed), replicas)
    found = pool_placement(supply, placed, replicas).replicas
    first = next(iter(found)) if supply.holds_gateway else None
    return sum(1 for node, models in found.items() if models or node == first)


def nodes_for_devices(supply: Supply, models: Iterable[Placed], replicas: Count) -> int:
    """The nodes with accelerators that these replicas need, packed by best-fit decreasing.

    A replica over several nodes takes as many devices on each: more than half of a node's, so no
    node holds two of its parts.
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
    node = Resources(
        memory_bytes=supply.node_memory_bytes,
        cpu_mhz=supply.node_cpu_mhz,
        ports=LAST_PORT - FIRST_PORT + 1,
    )
    offers = dict.fromkeys(_node_names(supply), node)
    if supply.holds_gateway:
        # Where hosts are not known yet, the first one has the only Envoy.
        for name in [host.name for host in supply.gateway_hosts] or list(offers)[:1]:
            offers[name] -= PLATFORM_JOBS
            if supply.hosts and not supply.on_loopback:
                offers[name] -= JOBS_OF_HOSTS
    return offers


def _node_names(supply: Supply) -> list[str]:
    """The nodes of an elastic pool have no names yet; only their order matters."""
    known: tuple[Node, ...] = supply.hosts
    return [node.name for node in known] or [str(number) for number in range(supply.nodes_max)]
