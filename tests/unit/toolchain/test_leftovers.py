"""What builds leave in the cache, and when it is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.leftovers import has_build_leftovers, remove_build_leftovers
from toolchain.locks import exclusive
from toolchain.pins import tool_pins
from toolchain.progress import Step, silent
from toolchain.settings import Settings
from toolchain.store import ToolStore

LEFT = ("go/mod/a@v1/a.go", "go/build/aa/object", "envs/go-0123456789ab/.complete")
RUNS = ("tools/nomad/1/nomad", "envs/node-0123456789ab/.complete", "weights/m/w", "downloads/uv/f")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for name in (*LEFT, *RUNS):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


def kept(cache: Path) -> set[str]:
    files = (file.relative_to(cache) for file in cache.rglob("*") if file.is_file())
    return {str(file) for file in files if file.parts[0] != "locks"}


def test_what_runs_stays_and_what_builds_left_goes(cache: Path) -> None:
    settings = Settings(cache=cache)
    assert has_build_leftovers(settings)
    remove_build_leftovers(settings)
    assert kept(cache) == {*RUNS}
    assert not has_build_leftovers(settings)
    assert not (cache / ".leftovers").exists()


def test_the_user_may_keep_it(cache: Path) -> None:
    assert not has_build_leftovers(Settings.read(cache, {"SLIPWAY_KEEP_BUILDS": "1"}))
    assert has_build_leftovers(Settings.read(cache, {"SLIPWAY_KEEP_BUILDS": ""}))


def test_nothing_is_taken_from_a_build_that_is_under_way(cache: Path) -> None:
    pin = tool_pins()["nomad"]
    with exclusive(ToolStore(cache).lock_path(pin), Step("nomad", silent)):
        remove_build_leftovers(Settings(cache=cache))
        assert kept(cache) == {*RUNS, *LEFT}
    remove_build_leftovers(Settings(cache=cache))
    assert kept(cache) == {*RUNS}


def test_a_removal_that_was_interrupted_is_finished_by_the_next(cache: Path) -> None:
    (cache / ".leftovers").mkdir()
    (cache / "go").rename(cache / ".leftovers/go")
    (cache / "go/build/bb").mkdir(parents=True)  # of a build after it
    remove_build_leftovers(Settings(cache=cache))
    assert kept(cache) == {*RUNS}
    assert not (cache / "go").exists()
