"""Whether a pool can hold a replica: layout, precision, devices, memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from slipway.config.catalog import Accelerator
from slipway.plan.capacity import DeviceMemory, Layout
from slipway.planner.memory.device import GIB, device_memory
from slipway.planner.memory.parallelism import layout_problems
from slipway.planner.memory.precisions import engine_problems, precision_problems

from .demand import Demand
from .supply import Supply


def replica_memory(
    demand: Demand, supply: Supply, layout: Layout
) -> DeviceMemory | tuple[str, ...]:
    """The memory of each device, or every reason why the pool cannot hold such a replica."""
    reasons = [
        *layout_problems(
            demand.architecture,
            layout,
            demand.precision,
            devices_per_node=supply.accelerators_per_node,
        ),
        *precision_problems(demand.architecture, supply.accelerator, layout, demand.precision),
        *_too_few_devices(demand, supply, layout),
        *engine_problems(supply.accelerator_name, supply.accelerator),
    ]
    if reasons:
        return tuple(reasons)
    memory = _memory(demand, supply.accelerator, layout)
    if memory.kv_cache_bytes <= 0:
        usable, missing = memory.usable_bytes / GIB, -memory.kv_cache_bytes / GIB
        return (
            f"{(memory.weights_bytes) / GIB:.1f} GiB of weights and what the engine needs exceed"
            f" the {usable:.1f} GiB of {supply.accelerator_name} it may use by {missing:.1f} GiB",
        )
    if memory.max_sequences_at_full_length < 1:
        return (
            f"the KV cache holds {memory.kv_tokens // layout.data} tokens, less than one sequence"
            f" of {demand.max_model_len}",
        )
    return memory


@lru_cache(maxsize=4096)
def _memory(demand: Demand, accelerator: Accelerator, layout: Layout) -> DeviceMemory:
    """Pools differ in nodes and price more often than in accelerators."""
    return device_memory(
        demand.architecture,
        accelerator,
        layout=layout,
        precision=demand.precision,
        max_len=demand.max_model_len,
        max_num_seqs=demand.max_num_seqs,
        utilization=demand.memory_utilization,
    )


def _too_few_devices(demand: Demand, supply: Supply, layout: Layout) -> Iterator[str]:
    have = supply.nodes_max * supply.accelerators_per_node
    need = layout.devices * demand.min_replicas
    if need > have:
        yield f"{demand.min_replicas} replicas need {need} devices, the pool has {have} at most"
