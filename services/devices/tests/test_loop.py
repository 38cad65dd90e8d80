"""The threads that follow the devices."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from accelerators.driver import DriverGoneError
from health import loop
from health.loop import Follower

HANGS_S = 60.0


class Watch:
    """Does what the test says at each look, and ends the threads at the last."""

    def __init__(self, ended: threading.Event, *looks: Exception | None) -> None:
        self._ended = ended
        self._looks = list(looks)
        self.unread: list[str] = []
        self.silent = threading.Event()
        self.silences = 0

    def look(self) -> None:
        if not self._looks:
            self._ended.set()
            return
        error = self._looks.pop(0)
        if error is not None:
            raise error

    def listen(self, _timeout_s: float) -> None:
        raise DriverGoneError("gone")

    def cannot_read(self, error: Exception) -> None:
        self.unread.append(str(error))

    def cannot_wait(self, _silence_s: float) -> None:
        self.silences += 1
        self.silent.set()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(loop, "LISTEN_S", 0.01)


def test_an_error_does_not_end_the_watch() -> None:
    ended = threading.Event()
    watch: Any = Watch(ended, None, ValueError("odd"), None, KeyError("missing"))
    Follower(watch, ended).follow()
    assert watch.unread == ["odd", "'missing'"]


def test_a_look_that_hangs_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE_S", 0.0)
    ended = threading.Event()
    watch: Any = Watch(ended)
    follower = Follower(watch, ended)  # which nobody lets follow
    guard = threading.Thread(target=follower.guard, daemon=True)
    guard.start()
    assert watch.silent.wait(HANGS_S)
    ended.set()
    guard.join(HANGS_S)
    assert watch.silences == 1
