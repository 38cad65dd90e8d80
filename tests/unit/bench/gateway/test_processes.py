"""Processes of a benchmark end with it; their processor time is that of their children, too."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from bench.gateway.processes import last_lines, processor_ms, running
from tests.waiting import until

BUSY = "import time\nwhile time.process_time() < 0.1: pass\nprint('done', flush=True)\n"
WAIT = "import time; time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY + WAIT!r}])"


def test_processor_time_is_what_the_process_counts_itself(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running([sys.executable, "-c", BUSY + WAIT], log=log) as process:
        until(lambda: "done" in log.read_text())
        assert 100 <= processor_ms([process]) < 1000


def test_children_are_counted_and_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running([sys.executable, "-c", PARENT], log=log) as process:
        until(lambda: "done" in log.read_text())
        (child,) = process.children()
        of_child_ms = processor_ms([child])
        assert processor_ms([process]) > of_child_ms > 0
    assert not psutil.pid_exists(process.pid)
    assert not child.is_running()


def test_processes_end_with_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        running([sys.executable, "-c", WAIT], log=tmp_path / "log") as process,
    ):
        raise KeyboardInterrupt
    assert not psutil.pid_exists(process.pid)


def test_the_end_of_a_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log) == ""
    log.write_text("".join(f"{number}\n" for number in range(9)))
    assert last_lines(log, 2) == "7\n8"
