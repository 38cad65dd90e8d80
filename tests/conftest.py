"""What all tests share."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

# One platform for tests/live and tests/host: a fixture counts as another one in each conftest.
from tests.live.fixtures import checkout, platform, second

__all__ = ["checkout", "platform", "second"]

LIVE = {Path(__file__).parent / folder for folder in ("host", "live")}

# Looking for garbage took a twentieth of the time: now seldom, and once at the end instead of
# pytest's five times, which other Pythons need.
gc.set_threshold(100_000, 20, 100)


def pytest_unconfigure() -> None:
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Live tests are not even imported where none of them runs."""
    return True if collection_path in LIVE and "not live" in config.option.markexpr else None
