"""What a sequence holds, for tests that ask for one length."""

from __future__ import annotations

from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout
from slipway.planner.engines.vllm.kv_cache import ONE_DEVICE, sequence_memory


def sequence_kv_bytes(
    architecture: Architecture,
    *,
    tokens: int,
    bytes_per_value: int,
    layout: Layout = ONE_DEVICE,
    in_flight: int = 1,
) -> int:
    sequence = sequence_memory(
        architecture, bytes_per_value=bytes_per_value, layout=layout, in_flight=in_flight
    )
    return sequence.held_bytes(tokens)
