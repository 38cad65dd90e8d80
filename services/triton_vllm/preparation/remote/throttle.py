"""A limit on the bytes per second of all downloads of this program together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Throttle:
    def __init__(
        self,
        bytes_per_s: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def wait_for(self, size_bytes: int) -> None:
        """Returns when the bytes that have come are no longer ahead of the limit. Nothing is read
        meanwhile, so TCP's flow control slows the source."""
        if self._bytes_per_s is None:
            return
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_s
            pause_s = self._free_at - now
        self._sleep(pause_s)
