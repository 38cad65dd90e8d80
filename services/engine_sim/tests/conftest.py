"""Imports of the service under test, and one replica for every test module that asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]

from engine_sim_process import SimProcess  # noqa: E402 - needs the path above


@pytest.fixture(scope="module")
def replica() -> Iterator[SimProcess]:
    """A replica that answers as fast as it can; tests leave it without faults."""
    with SimProcess(engine_args={"time_scale": 0}) as process:
        yield process
