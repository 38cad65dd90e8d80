"""Whether the memory that is left holds one sequence of full length, given the estimate's error."""

from __future__ import annotations

from typing import Literal

from slipway.plan.figures import DeviceMemory
from slipway.planner.units import GIB

# cannot_run: the engine refuses the replica, whatever its memory.
Verdict = Literal["fits", "may_fit", "does_not_fit", "cannot_run"]


def verdict(memory: DeviceMemory) -> Verdict:
    """fits: even if everything else takes as much as the error allows; does_not_fit: not even if it
    takes as little."""
    spare = memory.kv_cache_bytes - memory.longest_sequence_bytes
    if spare >= memory.error_bytes:
        return "fits"
    return "may_fit" if spare >= -memory.error_bytes else "does_not_fit"


def what_decides(memory: DeviceMemory, max_len: int) -> str:
    """Why a replica may fit, in words."""
    low = memory.kv_cache_bytes - memory.error_bytes
    high = memory.kv_cache_bytes + memory.error_bytes
    fits = memory.kv_cache_bytes >= memory.longest_sequence_bytes
    return (
        f"{'fits' if fits else 'does not fit'} by the estimate, but"
        f" {'not surely' if fits else 'may'}: {_gib(low)} to {_gib(high)} GiB are left for the KV"
        f" cache, and a sequence of {max_len:,} tokens takes {_gib(memory.longest_sequence_bytes)}"
        f" GiB while its prompt is computed. The outcome depends on the errors of the weights"
        f" (± {_gib(memory.weights_error_bytes)} GiB) and of the engine's own memory"
        f" (± {_gib(memory.engine_error_bytes)} GiB)"
    )


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f}"
