"""Memory of a replica without accelerators: its share of the node stands for the device."""

from __future__ import annotations

from slipway.plan.figures import DeviceMemory, SequenceMemory


def memory_on_processors(
    *,
    weights_bytes: int,
    kv_bytes_per_token: int,
    kv_cache_bytes: int,
    runtime_bytes: int,
    adapters_bytes: int = 0,
    total_bytes: int,
    max_len: int,
) -> DeviceMemory:
    kv_tokens = kv_cache_bytes // kv_bytes_per_token
    return DeviceMemory(
        device_bytes=total_bytes,
        usable_bytes=total_bytes,
        weights_bytes=weights_bytes,
        weights_error_bytes=0,  # the KV cache has the size that is stated, whatever they take
        engine_error_bytes=0,
        activations_bytes=0,
        graphs_bytes=0,
        communication_bytes=0,
        runtime_bytes=runtime_bytes,
        adapters_bytes=adapters_bytes,
        kv_cache_bytes=kv_cache_bytes,
        kv_bytes_per_token=kv_bytes_per_token,
        sequence=SequenceMemory(block_tokens=1, full_block_bytes=kv_bytes_per_token),
        longest_sequence_bytes=max_len * kv_bytes_per_token,
        kv_tokens=kv_tokens,
        max_sequences_at_full_length=kv_tokens // max_len,
    )
