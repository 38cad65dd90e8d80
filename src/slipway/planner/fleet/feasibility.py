"""Whether a pool can hold a replica: layout, precision, devices, memory."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.plan.figures import DeviceMemory, Layout
from slipway.planner.engines.adapter import AcceleratorReplica
from slipway.planner.supply.supply import Supply
from slipway.planner.units import GIB

from .demand import Demand


def replica_memory(
    demand: Demand, supply: Supply, layout: Layout
) -> DeviceMemory | tuple[str, ...]:
    """The memory of each device, or every reason why the pool cannot hold the replica."""
    memory = demand.engine.device_memory(
        AcceleratorReplica(
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
    )
    reasons = memory if isinstance(memory, tuple) else ()
    reasons = (*reasons, *_too_few_devices(demand, supply, layout))
    if reasons or isinstance(memory, tuple):
        return reasons
    if memory.kv_cache_bytes <= 0:
        usable, missing = memory.usable_bytes / GIB, -memory.kv_cache_bytes / GIB
        return (
            f"weights of {memory.weights_bytes / GIB:.1f} GiB and what the engine needs exceed the"
            f" {usable:.1f} GiB usable on {supply.accelerator_name} by {missing:.1f} GiB",
        )
    if memory.max_sequences_at_full_length < 1:
        return (
            f"the KV cache holds {memory.kv_tokens // layout.data} tokens, less than one sequence"
            f" of {demand.max_model_len}",
        )
    return memory


def _too_few_devices(demand: Demand, supply: Supply, layout: Layout) -> Iterator[str]:
    have = supply.nodes_max * supply.accelerators_per_node
    need = layout.devices * demand.min_replicas
    if need > have:
        yield f"{demand.min_replicas} replicas need {need} devices, but the pool has at most {have}"
