"""Makes the programs and their test support importable, as they are on a host: side by side."""

import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
sys.path[:0] = [str(_TESTS), str(_TESTS.parent)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only sleeping moves."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", sleep)
