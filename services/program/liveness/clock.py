"""The watcher's own time, in which only moments count that it and what it watches could use.

A replica that is stopped as a whole, or that shares busy processors, is slow and not still. So a
gap between two looks counts as one look at most, and time in which a thread of a watched process
was ready to run and got no processor does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.25
Waited = Callable[[], Mapping[str, float]]


class OwnClock:
    """`waited` says how long each thread of what is watched has waited for a processor so far; by
    default nothing waits."""

    def __init__(self, waited: Waited = dict, now: Callable[[], float] = time.monotonic) -> None:
        self._waited = waited
        self._now = now
        self._last_look_s = now()
        self._waited_before: Mapping[str, float] | None = None

    def since_last_look_s(self, *, exactly: bool) -> float:
        """Seconds that count. Not `exactly` spares the reading of threads: then all of a look
        counts."""
        now_s = self._now()
        gap_s, self._last_look_s = now_s - self._last_look_s, now_s
        counted_s = min(gap_s, LOOK_S)
        return counted_s - min(counted_s, self._longest_wait_s(exactly=exactly))

    def _longest_wait_s(self, *, exactly: bool) -> float:
        before, self._waited_before = self._waited_before, self._waited() if exactly else None
        if before is None or self._waited_before is None:
            return 0.0
        now = self._waited_before.items()
        return max((total - before.get(thread, total) for thread, total in now), default=0.0)


def waited_for_a_processor(pids: Iterable[int]) -> dict[str, float]:
    """Seconds that each thread of these processes has been ready to run without running. Empty
    where the kernel does not account for it (CONFIG_SCHED_INFO, which distributions have)."""
    found = {}
    for pid in pids:
        with suppress(OSError):  # the process has ended
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    # ns on a processor, ns ready to run, turns
                    waited_ns = (thread / "schedstat").read_text().split()[1]
                    found[thread.name] = int(waited_ns) / 1e9
    return found
