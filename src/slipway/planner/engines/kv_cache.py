"""Checks that a KV cache of a stated size holds one sequence of full length."""

from __future__ import annotations

from slipway.config.errors import Problem
from slipway.config.model import Model
from slipway.plan.figures import DeviceMemory
from slipway.planner.units import MIB


def cache_problems(
    model: Model, memory: DeviceMemory, max_model_len: int, needed_tokens: int
) -> list[Problem]:
    """An engine does not start when one sequence of full length, which takes `needed_tokens`,
    exceeds its KV cache."""
    if memory.kv_tokens >= needed_tokens:
        return []
    needed = -(-needed_tokens * memory.kv_bytes_per_token // MIB)
    return [
        model.origin.problem(
            ("engine", "kv_cache"),
            f"holds {memory.kv_tokens} tokens, and one sequence of {max_model_len} takes"
            f" {needed_tokens}",
            value=f"{memory.kv_cache_bytes // MIB}MiB",
            fix=f"raise kv_cache to {needed}MiB, or lower max_model_len",
        )
    ]
