"""How long-running work reports that it is alive. Standard library only."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from toolchain.errors import CancelledError

Progress = Callable[[str, str, float, str], None]
"""Called with (name, state, elapsed_s, detail), from any thread.

States: queued, waiting (for another run), checking, downloading, building, installing, ready,
failed. A name's last call is ready or failed.
"""

HEARTBEAT_S = 1.0

MEGABYTE = 1_000_000
_AMOUNT = re.compile(r"(\d+) of (\d+) Mi?B")


def amount(received_bytes: int, total_bytes: int | None) -> str:
    """The detail of a download, e.g. "12 of 145 MB"; "12 MB" if its size is not known."""
    of_total = f" of {max(1, total_bytes // MEGABYTE)}" if total_bytes else ""
    return f"{received_bytes // MEGABYTE}{of_total} MB"


def share(detail: str) -> float | None:
    """How much of a download is done, from 0 to 1, by such a detail; None by any other."""
    found = _AMOUNT.fullmatch(detail)
    return min(1.0, int(found[1]) / int(found[2])) if found else None


def silent(_name: str, _state: str, _elapsed_s: float, _detail: str) -> None:
    """A Progress for callers that show nothing."""


class Step:
    """One named piece of work: reports each new state, and its state again every HEARTBEAT_S."""

    def __init__(
        self, name: str, report: Progress, cancelled: threading.Event | None = None
    ) -> None:
        self.name = name
        self._report = report
        self._cancelled = cancelled
        self._started_s = time.monotonic()
        self._reported_s = self._started_s
        self._state = ""

    def enter(self, state: str, detail: str = "") -> None:
        """Reports a new state at once."""
        self._state = state
        self._emit(detail)

    def tick(self, detail: str = "") -> None:
        """Call it about once a second while waiting. Raises CancelledError if cancelled."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise CancelledError(self.name)
        if time.monotonic() - self._reported_s >= HEARTBEAT_S:
            self._emit(detail)

    def _emit(self, detail: str) -> None:
        self._reported_s = time.monotonic()
        self._report(self.name, self._state, self._reported_s - self._started_s, detail)
