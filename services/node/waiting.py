"""Wait for a condition with a deadline, saying now and then what was seen last."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from errors import HostError

PROGRESS_INTERVAL_S = 10.0
POLL_INTERVAL_S = 0.1


def wait_until(what: str, seen: Callable[[], str | None], timeout_s: float) -> float:
    """Poll `seen` until it returns None; otherwise it says what is missing.

    Prints `what` and the last thing seen every ten seconds. Returns the seconds it took; raises
    HostError with the last thing seen when the time is over.
    """
    started = time.monotonic()
    next_line = started + PROGRESS_INTERVAL_S
    while (missing := seen()) is not None:
        now = time.monotonic()
        if now - started > timeout_s:
            raise HostError(f"{what}: not after {timeout_s:.0f} s: {missing}")
        if now >= next_line:
            say(f"{what}: {missing}")
            next_line = now + PROGRESS_INTERVAL_S
        time.sleep(POLL_INTERVAL_S)  # the agents have no way to tell before they answer HTTP
    return time.monotonic() - started


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()  # the progress view shows lines as they come
