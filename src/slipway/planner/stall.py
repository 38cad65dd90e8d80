"""How long a replica's engine may stand still with work outstanding before it is killed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slipway.config.document import Origin
from slipway.config.errors import Problem

DEFAULT_STALL_S = 10.0
# A replica is out of rotation while no step has ended for this time. Its watcher, a program that
# stands apart, has the same rule (services/program/liveness/stillness.py).
LEAST_LIMIT_S, LIMIT_STEPS = 1.0, 2.0
DEFAULT_LIMITS = 2  # or so many times that limit: it leaves room for a machine that is slow
KEY = ("routing", "stall_s")


def least_stall_s(longest_step_s: float) -> float:
    """Before it the engine may still be at work on its longest step."""
    return max(LEAST_LIMIT_S, LIMIT_STEPS * longest_step_s)


def stall_s(longest_step_s: float, stated: float | None = None) -> float:
    """What the model file states, else the default; longer where the longest step needs it."""
    if stated is not None:
        return stated
    return max(DEFAULT_STALL_S, float(math.ceil(DEFAULT_LIMITS * least_stall_s(longest_step_s))))


def stall_problems(
    longest_step_s: float, stated: float | None, origin: Origin
) -> Iterator[Problem]:
    """Where the model file's own value would kill an engine at work."""
    least_s = least_stall_s(longest_step_s)
    if stated is not None and stated < least_s:
        yield origin.problem(
            KEY,
            f"kills an engine at work: its longest step may take {longest_step_s:.3g} s",
            value=stated,
            fix=f"use at least {math.ceil(least_s)}, or leave the key out",
        )
