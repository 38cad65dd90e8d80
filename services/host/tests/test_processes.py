"""Finding and ending processes: the right ones, gently, and no other."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hangs import HANG_S
from host.processes import Process, end, end_all, read, running

READY = "import sys, time, signal; {}; print('up', flush=True); time.sleep(3600)"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts an interpreter that sleeps; ends whatever is left afterwards."""
    started: list[subprocess.Popen[str]] = []

    def run(setup: str = "pass", **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", READY.format(setup)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(timeout=HANG_S)
        assert process.stdout is not None
        process.stdout.close()


def known(process: subprocess.Popen[str]) -> Process:
    found = read(process.pid)
    assert found is not None
    return found


def test_a_process_is_found_by_a_folder_in_its_environment(start: Start, tmp_path: Path) -> None:
    inside = start(NOMAD_ALLOC_DIR=f"{tmp_path}/nodes/a/alloc")
    start(NOMAD_ALLOC_DIR=f"{tmp_path}/nodes-of-another/a/alloc")
    found = [p for p in running() if p.has_variable("NOMAD_ALLOC_DIR", below=tmp_path / "nodes")]
    assert [process.pid for process in found] == [inside.pid]


def test_a_process_that_listens_ends_by_the_first_signal(start: Start) -> None:
    process = start()
    assert end([known(process)], grace_s=HANG_S) == 0
    assert process.wait(timeout=HANG_S) == -signal.SIGTERM


def test_a_process_that_ignores_it_is_killed(start: Start) -> None:
    process = start(DEAF)
    assert end([known(process)], grace_s=0.2) == 1
    assert process.wait(timeout=HANG_S) == -signal.SIGKILL


def test_a_later_process_with_the_same_id_is_not_touched(start: Start) -> None:
    process = start()
    earlier = dataclasses.replace(known(process), started=known(process).started - 1)
    assert end([earlier], grace_s=0.2) == 0
    assert process.poll() is None


def test_a_process_that_has_already_ended_is_not_an_error(start: Start) -> None:
    process = start()
    found = known(process)
    process.kill()
    process.wait(timeout=HANG_S)
    assert read(process.pid) is None
    assert end([found], grace_s=0.2) == 0


def test_processes_that_start_meanwhile_are_ended_too(start: Start) -> None:
    first, second = start(), start()
    rounds = [[known(first)], [known(second)], []]
    end_all(lambda: rounds.pop(0), grace_s=HANG_S)
    assert [p.wait(timeout=HANG_S) for p in (first, second)] == [-signal.SIGTERM] * 2
