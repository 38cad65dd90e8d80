"""Wait for a condition with a deadline, printing the last state seen from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from program.errors import HostError

PROGRESS_INTERVAL_S = 10.0
POLL_INTERVAL_S = 0.1


def wait_until(what: str, seen: Callable[[], str | None], timeout_s: float) -> float:
    """Poll `seen`, which returns what is missing, until it returns None.

    Prints `what` and the last state seen every ten seconds. Returns the seconds it took; raises
    HostError with the last state seen when the time is up.
    """
    started = time.monotonic()
    next_line = started + PROGRESS_INTERVAL_S
    while (missing := seen()) is not None:
        now = time.monotonic()
        if now - started > timeout_s:
            raise HostError(f"{what}: gave up after {timeout_s:.0f} s: {missing}")
        if now >= next_line:
            say(f"{what}: {missing}")
            next_line = now + PROGRESS_INTERVAL_S
        time.sleep(POLL_INTERVAL_S)  # agents cannot send an event before they answer HTTP
    return time.monotonic() - started


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()  # the progress view shows lines as they arrive
