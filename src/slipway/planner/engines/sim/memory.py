"""Memory of a simulated replica."""

from __future__ import annotations

from slipway.plan.figures import DeviceMemory
from slipway.planner.engines.processor_memory import memory_on_processors
from slipway.planner.units import MIB

# The simulator holds no weights and no cache, only bookkeeping: a budget, not a measurement.
SIM_REPLICA_BYTES = 200 * MIB


def simulated_replica(
    *, kv_bytes_per_token: int, kv_cache_bytes: int, max_len: int
) -> DeviceMemory:
    """A simulated replica: its KV cache is counted but not allocated, so it is not in the total."""
    return memory_on_processors(
        weights_bytes=0,
        kv_bytes_per_token=kv_bytes_per_token,
        kv_cache_bytes=kv_cache_bytes,
        runtime_bytes=SIM_REPLICA_BYTES,
        total_bytes=SIM_REPLICA_BYTES,
        max_len=max_len,
    )
