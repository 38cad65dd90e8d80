"""Finds and ends every process of one replica, however it is related to the launcher.

A process belongs to a replica if its environment carries the replica's marker. Environments are
inherited through forks, sessions and re-parenting, so orphans are found as well; process groups and
parent links would lose them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

MARKER = "SLIPWAY_REPLICA"

# Python's resource tracker removes semaphores and segments when its last user has gone.
RESOURCE_TRACKER = "multiprocessing.resource_tracker"
TRACKER_GRACE_S = 3.0
KILL_GRACE_S = 1.0  # gigabytes of memory take a moment to unmap
POLL_S = 0.02


def incarnation_of(replica_id: str, pid: int) -> str:
    """Marks what one launcher process started: pids are reused, start times are not.

    Raises FileNotFoundError if there is no such process.
    """
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # Field 22, in ticks since boot, which changes of the clock do not affect. The name in field 2
    # may contain blanks and ends with the last parenthesis.
    started_at_ticks = stat.rpartition(")")[2].split()[22 - 3]
    return f"{replica_id}/{pid}-{started_at_ticks}"


def launcher_lives(incarnation: str) -> bool:
    """Whether this incarnation's launcher still runs."""
    replica_id, _, launcher = incarnation.partition("/")
    pid = int(launcher.partition("-")[0])
    try:
        return _runs(pid) and incarnation_of(replica_id, pid) == incarnation
    except OSError:
        return False


def marked_processes(incarnation: str) -> list[int]:
    """Pids, this process excluded. Zombies have no environment and do not count."""
    marker = f"{MARKER}={incarnation}".encode()
    found = []
    for pid in psutil.pids():
        # It has ended meanwhile, or is another user's.
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if pid != os.getpid() and marker in environment.split(b"\0"):
                found.append(pid)
    return found


def end_marked_processes(incarnation: str, spare: Iterable[int] = ()) -> int:
    """Kills every process of an incarnation; returns their number.

    Resource trackers are killed last, after a moment to clean up.
    """
    spared = set(spare)
    ended: set[int] = set()

    def others() -> list[int]:
        return [pid for pid in marked_processes(incarnation) if pid not in spared]

    # Repeated until none is left: a process may fork while others are being killed.
    while rest := [pid for pid in others() if not _command_has(RESOURCE_TRACKER, pid)]:
        ended |= _kill(rest)
    _wait_until(lambda: not others(), TRACKER_GRACE_S)
    while rest := others():
        ended |= _kill(rest)
    return len(ended)


def end_processes_with(text: str, incarnation: str) -> None:
    """Kills the processes of an incarnation whose command lines contain a text."""
    # Repeated until none is left, as above.
    while found := [pid for pid in marked_processes(incarnation) if _command_has(text, pid)]:
        _kill(found)


def _command_has(text: str, pid: int) -> bool:
    """Whether the process's command line contains the text; False if the process has ended."""
    with contextlib.suppress(OSError):
        return text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _kill(pids: Iterable[int]) -> set[int]:
    """Sends SIGKILL, and waits until each process has gone."""
    killed = set(pids)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _wait_until(lambda: not any(map(_runs, killed)), KILL_GRACE_S)
    return killed


def _runs(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_S)
