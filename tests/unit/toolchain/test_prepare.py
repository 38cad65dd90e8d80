from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.stand_ins import build_of, pin, put_go
from tests.unit.toolchain.wheels import put_wheel
from tests.waiting import HANG_S
from toolchain import prepare as preparation
from toolchain import processes, progress
from toolchain.errors import ToolchainError
from toolchain.lanes import side_by_side
from toolchain.prepare import (
    EnvironmentJob,
    Job,
    PackagesJob,
    ToolJob,
    environment_folder,
    packages_folder,
    prepare,
)
from toolchain.progress import Step, silent

Events = list[tuple[str, str]]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("SLIPWAY_TOOL_SOURCES", "module")
    pins = {name: pin(tmp_path / name, name=name) for name in ("claw", "mallet")}
    monkeypatch.setattr(preparation, "tool_pin", pins.__getitem__)


def recorded(jobs: list[Job], cache: Path) -> tuple[dict[str, Path], Events]:
    events: Events = []
    done = prepare(jobs, cache, lambda name, state, _elapsed, _detail: events.append((name, state)))
    return done, events


@pytest.mark.binaries
@pytest.mark.usefixtures("tools", "with_uv")
def test_tools_and_environments_are_made_and_returned_by_name(tmp_path: Path) -> None:
    put_go(tmp_path / "bin", build=build_of())
    environment = EnvironmentJob(name="nail", requirements=put_wheel(tmp_path))
    done, events = recorded([ToolJob(name="claw"), environment], tmp_path / "cache")
    assert done["claw"] == tmp_path / "cache/tools/bin/claw-1.2.3/hammer"
    assert done["nail"].parent == tmp_path / "cache/envs"
    assert {("claw", "ready"), ("nail", "ready")} <= set(events)


@pytest.mark.binaries
@pytest.mark.usefixtures("with_uv")
def test_packages_for_other_pythons_lie_beside_the_environment(tmp_path: Path) -> None:
    requirements, cache = put_wheel(tmp_path / "made"), tmp_path / "cache"
    put_wheel(tmp_path / "own", version="2.0")
    own = (tmp_path / "own/requirements.txt").rename(tmp_path / "made/requirements-3.10.txt")
    jobs = [
        PackagesJob(name="nail", requirements=requirements, python=python)
        for python in ("3.10", "3.12")
    ]
    done, _ = recorded([EnvironmentJob(name="nail", requirements=requirements), *jobs], cache)
    folder = environment_folder("nail", requirements, cache)
    assert done == {
        "nail": folder,
        "nail for Python 3.10": packages_folder(folder, "3.10"),
        "nail for Python 3.12": packages_folder(folder, "3.12"),
    }
    versions = {
        python: (done[f"nail for Python {python}"] / f"lib/python{python}/site-packages/nail.py")
        for python in ("3.10", "3.12")
    }
    assert own.is_file()
    assert {python: file.read_text() for python, file in versions.items()} == {
        "3.10": 'VERSION = "2.0"\n',
        "3.12": 'VERSION = "1.0"\n',
    }


def test_two_jobs_of_one_name_are_refused(tmp_path: Path) -> None:
    environment = EnvironmentJob(name="claw", requirements=put_wheel(tmp_path))
    with pytest.raises(ValueError, match="two jobs have the same name"):
        prepare([ToolJob(name="claw"), environment], tmp_path / "cache")


@pytest.mark.usefixtures("tools")
def test_builds_go_one_after_the_other(tmp_path: Path) -> None:
    only_one = f"mkdir {tmp_path}/busy || exit 1\nsleep 0.1\nrmdir {tmp_path}/busy\n{build_of()}"
    put_go(tmp_path / "bin", build=only_one)
    _, events = recorded([ToolJob(name="claw"), ToolJob(name="mallet")], tmp_path / "cache")
    assert sorted(name for name, state in events if state == "building") == ["claw", "mallet"]
    assert len([name for name, state in events if state == "queued"]) == 1


@pytest.mark.usefixtures("tools")
def test_modules_are_downloaded_while_another_tool_is_built(tmp_path: Path) -> None:
    both = f'[ "$(cat {tmp_path}/downloaded 2>/dev/null)" = xx ]'
    wait_for_both = f"for _ in $(seq 100); do {both} && break; sleep 0.1; done; {both} || exit 1"
    put_go(
        tmp_path / "bin",
        modules=f"printf x >> {tmp_path}/downloaded",
        build=f"{wait_for_both}\n{build_of()}",
    )
    recorded([ToolJob(name="claw"), ToolJob(name="mallet")], tmp_path / "cache")


@pytest.mark.usefixtures("tools")
def test_a_long_build_is_never_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(processes, "_TICK_S", 0.02)
    heard = tmp_path / "heard"
    wait_for_it = f"for _ in $(seq 500); do [ -e {heard} ] && break; sleep 0.02; done"
    put_go(tmp_path / "bin", build=f"echo compiling anvil\n{wait_for_it}\n{build_of()}")
    details = []

    def note(_name: str, state: str, _elapsed_s: float, detail: str) -> None:
        details.append((state, detail))
        if details.count(("building", "compiling anvil")) == 2:
            heard.touch()

    prepare([ToolJob(name="claw")], tmp_path / "cache", note)
    assert heard.exists(), details


def test_the_first_failure_cancels_the_rest_and_is_raised() -> None:
    events: Events = []
    started = threading.Event()

    def waits(step: Step) -> None:
        started.set()
        while True:
            step.tick()

    def fails(_step: Step) -> None:
        started.wait(HANG_S)
        raise ToolchainError("the anvil broke", fix="buy another")

    with pytest.raises(ToolchainError, match="the anvil broke"):
        side_by_side(
            {"waits": waits, "fails": fails},
            lambda name, state, _elapsed, detail: events.append((name, f"{state}: {detail}")),
        )
    assert set(events) == {("fails", "failed: the anvil broke"), ("waits", "failed: cancelled")}


def test_an_interrupt_while_work_is_submitted_cancels_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submit = ThreadPoolExecutor.submit

    def submit_and_interrupt(pool: ThreadPoolExecutor, *work: Any) -> None:
        submit(pool, *work)
        raise KeyboardInterrupt

    def waits(step: Step) -> None:
        while True:
            step.tick()

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        side_by_side({"waits": waits}, silent)


def test_no_work_is_no_work() -> None:
    assert side_by_side({}, silent) == {}
