"""Processes of a benchmark, which end with it, and the processor time that they took."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

END_S = 5.0  # then by force: all are idle by then


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[psutil.Popen]:
    """Ended on exit, with its children. A benchmark that is killed leaves none."""
    with log.open("ab") as output:
        process = psutil.Popen(
            ["setpriv", "--pdeathsig", "KILL", *map(str, command)],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: psutil.Process) -> None:
    family = _family([process])
    for signalled in (psutil.Process.terminate, psutil.Process.kill):
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                signalled(each)
        _, family = psutil.wait_procs(family, timeout=END_S)


def processor_ms(processes: Iterable[psutil.Process]) -> float:
    """What these and their children have taken since they began, without children that have ended.

    Each process has a clock of its own (clock_getcpuclockid(3)): /proc/<pid>/stat counts the same
    time in steps of 10 ms.
    """
    clocks = ((~each.pid << 3) | 2 for each in _family(processes))
    return sum(time.clock_gettime(clock) for clock in clocks) * 1e3


def last_lines(log: Path, count: int = 5) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-count:])


def _family(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process, *process.children(recursive=True)]
    return found
