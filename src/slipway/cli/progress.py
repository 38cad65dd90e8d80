"""What the user sees of long work: phases with their times, and signs of life inside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from slipway.cli.console import say

REPEAT_S = 10.0  # work that goes on is mentioned again this often


class Phases:
    """Names and times of what a command does; `seconds` fills as they end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    @contextmanager
    def phase(self, name: str, about: str) -> Iterator[None]:
        say(f"{clock(self.elapsed_s)}  {name}: {about}", style="bold")
        started_s = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - started_s, 2)
        say(f"{clock(self.elapsed_s)}  {name}: done in {self.seconds[name]:.1f} s", style="green")


class ToolchainProgress:
    """Prints each new state of a tool or environment, and a state that lasts every REPEAT_S.

    Called from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[str, tuple[str, float]] = {}

    def __call__(self, name: str, state: str, elapsed_s: float, detail: str) -> None:
        with self._lock:
            shown = self._shown.get(name)
            if shown is None and state == "ready":
                self._shown[name] = (state, elapsed_s)  # it was there already: nothing to tell
                return
            if shown and shown[0] == state and elapsed_s - shown[1] < REPEAT_S:
                return
            self._shown[name] = (state, elapsed_s)
        say(f"  {name}: {state} ({elapsed_s:.0f} s) {detail}".rstrip())


def clock(seconds: float) -> str:
    """A time since the start of the command, e.g. "  0:07" or " 12:34"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:3d}:{rest:02d}"
