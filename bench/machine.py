"""The machine of a measurement, and how fast it was at that time.

    python3 bench/machine.py        prints the current loop factor

Standard library only: bench/cold.py runs before the checkout has an environment.
"""

from __future__ import annotations

import datetime
import os
import platform
import time

ADDITIONS = 20_000_000
USUAL_S = 1.0  # of CPython 3.11 on the machines that the published figures come from


def loop_factor() -> float:
    """Processor seconds of a fixed loop over its usual ones: 2.0 is half the usual speed.

    The loop is inside a function because local variables are faster than a module's.
    """
    started_s, total = time.process_time(), 0
    for number in range(ADDITIONS):
        total += number
    return (time.process_time() - started_s) / USUAL_S


def measured_on(factor_before: float) -> str:
    """The machine, the date and the loop factor: `factor_before` was measured before the benchmark,
    the other one is measured now."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    machine = f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {system}, {today}"
    return f"{machine}, {described(factor_before, loop_factor())}"


def described(before: float, after: float) -> str:
    """The mean, by which a time is divided before it is compared with a bar, and both factors."""
    return f"loop factor {(before + after) / 2:.2f} ({before:.2f} before, {after:.2f} after)"


if __name__ == "__main__":
    print(f"loop factor {loop_factor():.2f}")
