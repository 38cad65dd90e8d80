"""The state of the work in progress, which a thread shows while there is any."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from cli.live.durations import Durations
from cli.live.work import QUEUED, Expected, Phase, Piece, Wait, Work

LOOK_S = 0.25
READY, FAILED = "ready", "failed"


class View(Protocol):
    """Where the work is shown. One thread at a time calls it."""

    def begin(self, line: str) -> None:
        """A phase begins, as this line says."""

    def log(self, line: str) -> None:
        """Something has ended, as this line says, for those who do not see the block."""

    def show(self, work: Work, now_s: float, expected: Expected) -> None:
        """The work as it is now."""

    def close(self) -> None:
        """No work is left, for now."""


class Board:
    """Called from any thread. `view` makes the view for each stretch of work, `clock` is in
    seconds."""

    def __init__(
        self, view: Callable[[], View], clock: Callable[[], float], durations: Durations
    ) -> None:
        self.clock = clock
        self._make_view = view
        self._durations = durations
        self._lock = threading.RLock()  # of the state
        self._showing = threading.RLock()  # of the view and its thread
        self._view: View | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._phase: Phase | None = None
        self._waits: list[Wait] = []
        self._tools: dict[str, Piece] = {}
        self._operations: dict[str, Piece] = {}
        self._ready = self._changes = 0
        self._measured: dict[str, float] = {}

    @contextmanager
    def phase(self, phase: Phase, line: str) -> Iterator[None]:
        """Shows the phase, and keeps its duration if it does not fail."""
        with self._lock:
            around = self._phase
        try:  # before anything else: Ctrl-C may come at any moment
            with self._lock:
                self._phase = phase
                self._ready = self._changes = 0
            self._adapt()
            self._now_view().begin(line)
            yield
            self._measured[phase.key] = self.clock() - phase.since_s
        finally:
            with self._lock:
                self._phase = around
                self._tools.clear()
            self._adapt()

    @contextmanager
    def wait(self, what: Callable[[], str]) -> Iterator[None]:
        """Shows what is waited for while that lasts."""
        wait = Wait(what=what, since_s=self.clock())
        try:
            with self._lock:
                self._waits.append(wait)
            self._adapt()
            yield
        finally:
            with self._lock, suppress(ValueError):  # Ctrl-C may have come before it was there
                self._waits.remove(wait)
            self._adapt()

    def tool(self, name: str, state: str, detail: str) -> None:
        """A tool or an environment is in this state; its last one is ready or failed."""
        with self._lock:
            self._measure(self._tools.get(name), state)
            if state in (READY, FAILED):
                self._ready += self._tools.pop(name, None) is not None and state == READY
            else:
                self._tools[name] = self._entered(self._tools.get(name), name, state, detail)
        self._adapt()

    @contextmanager
    def operations(self) -> Iterator[None]:
        """While Pulumi runs: what it had not changed when it ended was interrupted."""
        try:
            yield
        finally:
            with self._lock:
                self._operations.clear()
            self._adapt()

    def operation(self, key: str, name: str, state: str, detail: str) -> None:
        """Pulumi is changing a resource."""
        with self._lock:
            known = self._operations.get(key)
            self._operations[key] = self._entered(known, name, state, detail)
        self._adapt()

    def changed(self, key: str, line: str) -> None:
        """Pulumi has changed a resource, as this line of its output says."""
        with self._lock:
            known = self._operations.pop(key, None)
            self._measure(known, READY)
            self._changes += 1
        self.log(line)
        self._adapt()

    def dropped(self, key: str) -> None:
        """Pulumi could not change a resource."""
        with self._lock:
            self._operations.pop(key, None)
        self._adapt()

    def log(self, line: str) -> None:
        """Says what has ended, where no block has shown it."""
        self._now_view().log(line)

    def work(self) -> Work:
        with self._lock:
            return Work(
                phase=self._phase,
                tools=tuple(self._tools.values()),
                tools_ready=self._ready,
                operations=tuple(self._operations.values()),
                changes=self._changes,
                waits=tuple(self._waits),
            )

    def look(self) -> None:
        """Shows the work as it is now."""
        with self._showing:
            if self._view is not None:
                self._view.show(self.work(), self.clock(), self._durations.expected_s)

    def _entered(self, known: Piece | None, name: str, state: str, detail: str) -> Piece:
        if known is not None and known.state == state:
            return replace(known, detail=detail)
        return Piece(name=name, state=state, since_s=self.clock(), detail=detail)

    def _measure(self, known: Piece | None, state: str) -> None:
        """Keeps how long it was in the state that it leaves for another one. How long it waits for
        its turn says something of others."""
        if known is not None and state not in (known.state, FAILED) and known.state != QUEUED:
            self._measured[known.key] = self.clock() - known.since_s

    @property
    def _has_work(self) -> bool:
        return bool(self._phase or self._waits or self._tools or self._operations)

    def _now_view(self) -> View:
        return self._view or self._make_view()

    def _adapt(self) -> None:
        """Starts the thread with the first work, ends it with the last."""
        ended = None
        with self._showing:
            if self._has_work and self._view is None:
                self._start()
            elif not self._has_work and self._view is not None:
                ended = self._thread
                self._stop()
        if ended is not None:
            ended.join()  # no other thread is left when a server is forked

    def _start(self) -> None:
        self._view, self._ended = self._make_view(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._ended,), name="progress", daemon=True
        )
        self._thread.start()

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(LOOK_S):
            with self._showing:
                if not ended.is_set():
                    # It is drawn the next time, and nothing depends on it.
                    with suppress(Exception):
                        self.look()

    def _stop(self) -> None:
        self._ended.set()
        if self._view is not None:
            self._view.close()
        self._view = self._thread = None
        measured, self._measured = self._measured, {}
        self._durations.keep(measured)
