"""The program's work grows with the models and no faster; bench/preview_scale.py has the bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import preview_scale
from bench.preview_scale import Names, read, register, write_environment
from stacks.planning import make_plan
from tests.counting import calls_during

RESOURCES_PER_MODEL = 4  # the component, its job, its gate, its route
FEW, MORE, MANY = 4, 8, 12


def resources_and_calls(folder: Path, models: int) -> tuple[int, int]:
    folder.mkdir()
    write_environment(folder, models)
    names = Names()
    calls = calls_during(lambda: register(make_plan(read(folder)), names))
    return len(names.registered), calls


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_next_models_are_as_much_work_as_the_ones_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_scale, "NODES_PER_POOL", 1)  # they are work, too
    monkeypatch.setattr(preview_scale, "POOLS", 1)
    resources_and_calls(tmp_path / "first", 1)  # what is done once is done
    counts = [resources_and_calls(tmp_path / f"{count}", count) for count in (FEW, MORE, MANY)]
    (few, calls), (more, more_calls), (many, most_calls) = counts
    assert many - more == more - few == (MORE - FEW) * RESOURCES_PER_MODEL
    assert most_calls - more_calls == pytest.approx(more_calls - calls, rel=0.02)
