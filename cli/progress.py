"""The progress of long work: phases with their times, and signs of life within them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.console import notes, say

REPEAT_S = 10.0  # how often a lasting state is printed again
MOMENT_S = 2.0  # a wait that lasts longer is reported
SILENCE_S = 15.0  # a phase that has been silent this long says that it is still running


class Phases:
    """The phases of a command; `seconds` has the time of each that has ended."""

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
            with _signs_of_life(name):
                yield
        finally:
            self.seconds[name] = round(time.monotonic() - started_s, 2)
        say(f"{clock(self.elapsed_s)}  {name}: done in {self.seconds[name]:.1f} s", style="green")


@contextmanager
def _signs_of_life(name: str) -> Iterator[None]:
    started_s, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(max(0.0, notes.silent_since_s + SILENCE_S - time.monotonic())):
            if time.monotonic() - notes.silent_since_s >= SILENCE_S:
                say(f"  {name}: still running ({time.monotonic() - started_s:.0f} s)")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


@contextmanager
def telling(what: Callable[[], str]) -> Iterator[None]:
    """Prints what is being waited for, once it lasts longer than a moment."""
    ended = threading.Event()

    def tell() -> None:
        started_s, wait_s = time.monotonic(), MOMENT_S
        while not ended.wait(wait_s):
            say(f"{what()} ({time.monotonic() - started_s:.0f} s)")
            wait_s = REPEAT_S

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


class ToolchainProgress:
    """Prints each new state of a tool or environment, and repeats a lasting one every REPEAT_S.

    Called from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[str, tuple[str, float]] = {}

    def __call__(self, name: str, state: str, elapsed_s: float, detail: str) -> None:
        with self._lock:
            shown = self._shown.get(name)
            if shown is None and state == "ready":
                self._shown[name] = (state, elapsed_s)  # it existed already: nothing to report
                return
            if shown and shown[0] == state and elapsed_s - shown[1] < REPEAT_S:
                return
            self._shown[name] = (state, elapsed_s)
        say(f"  {name}: {state} ({elapsed_s:.0f} s) {detail}".rstrip())


def clock(seconds: float) -> str:
    """A time since the start of the command, e.g. "  0:07" or " 12:34"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:3d}:{rest:02d}"
