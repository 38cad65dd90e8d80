"""Whether a pool can hold a replica: layout, precision, devices, memory."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.plan.figures import DeviceMemory, Layout
from slipway.planner.calibration import Calibration, Subject, with_measured_cache
from slipway.planner.engines.adapter import AcceleratorReplica
from slipway.planner.groups import pool_problems
from slipway.planner.supply.supply import Supply
from slipway.planner.units import GIB
from slipway.planner.verdict import verdict
from slipway.planner.wording import counted

from .demand import Demand


def replica_memory(
    demand: Demand, supply: Supply, layout: Layout, calibration: Calibration | None = None
) -> DeviceMemory | tuple[str, ...]:
    """The memory of each device, where it fits or may fit, or every reason why the pool cannot hold
    the replica."""
    memory = asked_memory(demand, supply, layout, calibration)
    reasons = memory if isinstance(memory, tuple) else ()
    reasons = (
        *reasons,
        *map(str, pool_problems(layout, supply)),
        *_not_bare(demand, supply),
        *_too_few_devices(demand, supply, layout),
    )
    if reasons or isinstance(memory, tuple):
        return reasons
    if verdict(memory) == "does_not_fit":
        return (_why_not(demand, supply, memory),)
    return memory


def asked_memory(
    demand: Demand, supply: Supply, layout: Layout, calibration: Calibration | None = None
) -> DeviceMemory | tuple[str, ...]:
    """The memory that the replica asks of each device, whether it fits or not, or every reason why
    the engine does not run it. A KV cache that was measured overrides what the estimate leaves."""
    replica = AcceleratorReplica(
        architecture=demand.architecture,
        accelerator_name=supply.accelerator_name,
        accelerator=supply.device,
        devices_per_node=supply.accelerators_per_node,
        layout=layout,
        precision=demand.precision,
        max_model_len=demand.max_model_len,
        max_num_seqs=demand.max_num_seqs,
        memory=demand.memory,
    )
    if problems := demand.engine.replica_problems(replica):
        return problems
    memory = demand.engine.device_memory(replica)
    return memory if calibration is None else measured(memory, demand, supply, layout, calibration)


def measured(
    memory: DeviceMemory,
    demand: Demand,
    supply: Supply,
    layout: Layout,
    calibration: Calibration,
) -> DeviceMemory:
    """The memory with the KV cache that was measured of such a replica, if any."""
    subject = Subject(
        layout=layout,
        precision=demand.precision,
        architecture=demand.architecture,
        accelerator=supply.accelerator,
    )
    found = calibration.find_cache(subject, demand.cache)
    return memory if found is None else with_measured_cache(memory, found)


def _why_not(demand: Demand, supply: Supply, memory: DeviceMemory) -> str:
    cache, usable = memory.kv_cache_bytes / GIB, memory.usable_bytes / GIB
    if cache <= 0:
        return (
            f"weights of {memory.weights_bytes / GIB:.1f} GiB and what the engine needs exceed the"
            f" {usable:.1f} GiB usable on {supply.accelerator_name} by {-cache:.1f} GiB"
        )
    return (
        f"the KV cache that is left, {cache:.1f} GiB, is less than the"
        f" {memory.longest_sequence_bytes / GIB:.1f} GiB of one sequence of"
        f" {demand.max_model_len:,} tokens"
    )


def _not_bare(demand: Demand, supply: Supply) -> Iterator[str]:
    """Pools that only count their hosts can be planned for any vendor."""
    vendor = supply.device.vendor
    if supply.hosts and supply.image is None and vendor not in demand.engine.bare_vendors:
        yield (
            f"its engine for {supply.accelerator_name} ({vendor}) comes only in images: set"
            " `runtime: container` and `image` of the pool"
        )


def _too_few_devices(demand: Demand, supply: Supply, layout: Layout) -> Iterator[str]:
    if supply.hosts_of(layout) > 1:
        yield from _too_few_hosts(demand, supply, supply.hosts_of(layout))
        return
    have = supply.nodes_max * supply.accelerators_per_node
    need = layout.devices * demand.min_replicas
    if need > have:
        yield (
            f"{counted(demand.min_replicas, 'replica')} would take {counted(need, 'device')}, but"
            f" the pool has at most {have}"
        )


def _too_few_hosts(demand: Demand, supply: Supply, hosts: int) -> Iterator[str]:
    """For the minimum; a pool without hosts for one replica was refused before."""
    need = hosts * demand.min_replicas
    if hosts <= supply.nodes_max < need:
        yield (
            f"{counted(demand.min_replicas, 'replica')} of {counted(hosts, 'host')} would take"
            f" {need}, but the pool has at most {supply.nodes_max}"
        )
