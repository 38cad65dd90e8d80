"""Imports of the service under test, and one replica for every test module that asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_SHARED = _TESTS.parents[1] / "testing"  # by the tests of all services
sys.path[:0] = [str(_TESTS.parent), str(_TESTS), str(_SHARED)]

from engine_sim_process import SimProcess  # noqa: E402 - needs the path above
from property_tests import without_time_limits  # noqa: E402

without_time_limits()


@pytest.fixture(scope="module")
def replica() -> Iterator[SimProcess]:
    """A replica that answers as fast as it can; tests leave it without faults."""
    with SimProcess(engine_args={"time_scale": 0}) as process:
        yield process
