"""What builds leave in the cache, and when it is removed."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.unit.toolchain.wheels import put_wheel
from toolchain.environments import ensure_environment
from toolchain.leftovers import has_build_leftovers, remove_build_leftovers
from toolchain.locks import exclusive
from toolchain.pins import tool_pins
from toolchain.progress import Step, silent
from toolchain.settings import Settings
from toolchain.store import ToolStore
from toolchain.unused_libraries import UNUSED

CHECKOUT = Path(__file__).parents[3]
LEFT = (
    "go/mod/a@v1/a.go",
    "go/build/aa/object",
    "envs/go-0123456789ab/.complete",
    "downloads/llm-small==0.1/llm_small-0.1-py3-none-any.whl",
)
RUNS = (
    "tools/nomad/1/nomad",
    "envs/node-0123456789ab/.complete",
    "weights/m/w",
    "downloads/uv/f",
    "downloads/.llm-small==0.1.lock",
    "downloads/.llm-large==0.1.partial/llm_large-0.1-py3-none-any.whl",
)


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


ONLY_ON_GPUS = "triton/backends/nvidia/bin/ptxas"


@pytest.fixture
def with_a_compiler(tmp_path: Path, with_uv: None) -> Path:
    """A cache whose environment of vLLM has a program that only a GPU needs."""
    cache = tmp_path / "cache"
    requirements = put_wheel(tmp_path, name="triton", others=(ONLY_ON_GPUS,))
    ensure_environment(requirements, cache / "envs/vllm-0123456789ab", silent)
    ensure_environment(requirements, cache / "envs/other-0123456789ab", silent)
    return cache


def test_what_only_a_gpu_opens_leaves_the_engine_and_uvs_cache(with_a_compiler: Path) -> None:
    cache = with_a_compiler
    assert len([*cache.rglob("ptxas")]) == 3
    remove_build_leftovers(Settings(cache=cache))
    (kept,) = cache.rglob("ptxas")
    assert kept.is_relative_to(cache / "envs/other-0123456789ab")
    assert kept.stat().st_nlink == 1
    assert [*(cache / "envs/vllm-0123456789ab").rglob("triton.py")]
    assert not has_build_leftovers(Settings(cache=cache))


@pytest.mark.thorough
def test_it_stays_while_uv_makes_an_environment(with_a_compiler: Path) -> None:
    cache = with_a_compiler
    with (cache / "downloads/uv/.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        remove_build_leftovers(Settings(cache=cache))
        assert len([*cache.rglob("ptxas")]) == 3
    assert has_build_leftovers(Settings(cache=cache))


def test_a_half_made_environment_is_left_alone(with_a_compiler: Path) -> None:
    cache = with_a_compiler
    (cache / "envs/vllm-0123456789ab/.complete").unlink()
    remove_build_leftovers(Settings(cache=cache))
    assert len([*cache.rglob("ptxas")]) == 3


def test_the_environment_still_pins_what_has_files_for_gpus_only() -> None:
    pins = (CHECKOUT / "services/triton_vllm/requirements-vllm.txt").read_text()
    pinned = {line.partition("==")[0] for line in pins.splitlines()}
    assert set(UNUSED) <= pinned
