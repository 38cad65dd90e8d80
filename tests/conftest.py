"""Shared by all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

# Imported here, so that tests/live and tests/host share one platform: in two conftests a fixture
# would be two fixtures.
from tests.live.fixtures import checkout, platform, scaled, second

__all__ = ["checkout", "platform", "scaled", "second"]

LIVE = {Path(__file__).parent / folder for folder in ("host", "hosts", "live")}

# Commands print in another form where one of these is set, as it is in CI. A test that is about one
# sets it.
for name in ("CI", "FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR"):
    os.environ.pop(name, None)

# Garbage collection took a twentieth of the time: now it runs seldom, and once at the end instead
# of pytest's five times, which are for other Pythons.
gc.set_threshold(100_000, 20, 100)

# No deadline for one example: on a loaded machine it ends tests that pass.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# `slipway test --fast` tries fewer examples of each property, unless the property says how many.
hypothesis.settings.register_profile("few examples", deadline=None, max_examples=25)


@pytest.fixture(scope="session", autouse=True)
def one_reading_of_the_artifacts() -> Iterator[None]:
    """This checkout's services do not change while tests run: they are read and digested once, and
    not each time that a test plans."""
    from slipway import inputs  # noqa: PLC0415  (the workers need it, what starts them does not)

    checkout, read = Path(__file__).parents[1], inputs.read_artifacts
    read_once = cache(read)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            inputs,
            "read_artifacts",
            lambda root: read_once(root) if root == checkout else read(root),
        )
        yield


def pytest_unconfigure() -> None:
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Live tests and those of hosts are not even imported if none of them runs."""
    return True if collection_path in LIVE and "not live" in config.option.markexpr else None
