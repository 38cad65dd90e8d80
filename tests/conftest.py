"""What all tests share."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

# One platform for tests/live and tests/host: a fixture counts as another one in each conftest.
from tests.live.fixtures import checkout, platform, second

__all__ = ["checkout", "platform", "second"]

# Looking for garbage took a twentieth of the time: now seldom, and once at the end instead of
# pytest's five times, which other Pythons need.
gc.set_threshold(100_000, 20, 100)


def pytest_unconfigure() -> None:
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What no test of will run is not imported."""
    only_live = collection_path.parent == Path(__file__).parent and collection_path.name in {
        "host",
        "live",
    }
    return True if only_live and "not live" in config.option.markexpr else None
