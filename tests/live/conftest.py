"""Settings of every live test; the platforms are in fixtures.py."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _bounded_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own interpreter settings must not reach the copy's.
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        if name in os.environ:
            monkeypatch.delenv(name)
