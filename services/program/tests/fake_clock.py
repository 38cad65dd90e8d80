"""Time for tests that wait."""

from __future__ import annotations

import pytest


class Clock:
    """Only sleeping moves it."""

    now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", lambda: clock.now_s)
    monkeypatch.setattr("time.sleep", clock.sleep)
    return clock
