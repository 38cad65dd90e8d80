"""Replicas on nodes without accelerators: packed by memory, cores and ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from slipway.plan.platform import Node
from slipway.planner.peers import proxy_memory_bytes
from slipway.planner.placement import Placement, Resources, place
from slipway.planner.replica import PORTS, whole_mib
from slipway.planner.supply.addresses import FIRST_PORT, LAST_PORT
from slipway.planner.supply.supply import Supply
from slipway.planner.units import GIB, MIB

from .placed import Placed, at_maximum, in_use

# Reserved on each of the gateway's nodes for Envoy, xDS, Prometheus and the Autoscaler: 64 + 97 +
# 38 MB and a Python process, measured idle (2026-11-21), with room for their caches to grow.
PLATFORM_JOBS = Resources(memory_bytes=GIB, cpu_mhz=500, ports=0)
# Reserved in addition on machines of their own, for keepalived and the job that takes snapshots.
JOBS_OF_HOSTS = Resources(memory_bytes=192 * MIB, cpu_mhz=100, ports=0)


def pool_placement(
    supply: Supply,
    placed: Iterable[Placed],
    replicas: Callable[[Placed], int] = at_maximum,
) -> Placement:
    """The placement of `replicas` of each of the pool's models."""
    return place(
        _offers(supply),
        {each.demand.model: (needs(each), replicas(each)) for each in in_use(supply, placed)},
    )


def needs(placed: Placed) -> Resources:
    """What one replica on processors takes from a node."""
    engine, supply = placed.option.on_processors, placed.option.supply
    assert engine is not None, "runs on processors"  # noqa: S101
    return Resources(
        memory_bytes=whole_mib(engine.host_memory_bytes) + proxy_memory_bytes(supply),
        cpu_mhz=engine.cpu_mhz,  # includes the proxy's
        ports=len(PORTS),
    )


def nodes_in_use(supply: Supply, placement: Placement) -> int:
    """The nodes with replicas, and the first one if the gateway runs there."""
    first = next(iter(placement.replicas)) if supply.holds_gateway else None
    return sum(1 for node, replicas in placement.replicas.items() if replicas or node == first)


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
