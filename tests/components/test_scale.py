"""The program's work grows with the models and no faster; bench/preview_scale.py has the bars."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.preview_scale import Names, read, register, write_environment
from slipway.planner.platform import make_plan

RESOURCES_PER_MODEL = 4  # the component, its job, its gate, its route


def resources_and_cpu_s(folder: Path, models: int) -> tuple[int, float]:
    """CPU time of this process: other work on the machine does not count."""
    folder.mkdir()
    write_environment(folder, models)
    started = time.process_time()
    names = Names()
    register(make_plan(read(folder)), names)
    return len(names.registered), time.process_time() - started


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_hundred_models_are_a_hundred_times_the_resources_of_one_in_seconds(
    tmp_path: Path,
) -> None:
    one, _ = resources_and_cpu_s(tmp_path / "one", 1)
    hundred, cpu_s = resources_and_cpu_s(tmp_path / "hundred", 100)
    assert hundred - one == 99 * RESOURCES_PER_MODEL
    assert cpu_s < 12, "a thousand models would take minutes"
