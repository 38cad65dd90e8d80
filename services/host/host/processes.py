"""Find processes of this environment in /proc and end them, and never any others."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A running process. `started` (clock ticks since boot) tells it from a later one with its
    id."""

    pid: int
    parent: int
    started: int
    argv: tuple[str, ...]
    environment: tuple[str, ...]

    def variable(self, name: str) -> str:
        """The value of an environment variable; "" if it is not set."""
        prefix = f"{name}="
        found = (each for each in self.environment if each.startswith(prefix))
        return next(found, prefix).removeprefix(prefix)

    def has_variable(self, name: str, *, below: Path) -> bool:
        """Whether an environment variable is `below` or a path inside it."""
        prefix = f"{name}={below}"
        return any(
            variable == prefix or variable.startswith(f"{prefix}/") for variable in self.environment
        )


def running() -> Iterator[Process]:
    """Every process whose environment this user may read: the user's own, or all for root."""
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = read(int(entry.name))
            if process is not None:
                yield process


def read(pid: int) -> Process | None:
    """The process, or None if it is gone, a zombie, or not readable for this user."""
    try:
        # The command name may contain spaces and brackets, so fields are counted after the last
        # one.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        if fields[0] in "ZX":
            return None
        return Process(
            pid=pid,
            parent=int(fields[1]),
            started=int(fields[19]),
            argv=_strings(PROC / str(pid) / "cmdline"),
            environment=_strings(PROC / str(pid) / "environ"),
        )
    except (OSError, IndexError):
        return None


def end(processes: Iterable[Process], grace_s: float) -> int:
    """SIGTERM, then SIGKILL after `grace_s`. Returns how many had to be killed.

    Signals go through process file descriptors, so a process that reuses an id is never hit.
    """
    with ExitStack() as opened:
        living = {}
        for process in processes:
            descriptor = _open(process)
            if descriptor is not None:
                opened.callback(os.close, descriptor)
                living[descriptor] = process
        _signal(living, signal.SIGTERM)
        _wait(living, grace_s)
        killed = len(living)
        _signal(living, signal.SIGKILL)
        _wait(living, grace_s)
        return killed


def end_all(found: Callable[[], list[Process]], grace_s: float) -> None:
    """End the processes that `found` returns until there are none: one may start another
    meanwhile."""
    for _ in range(5):
        processes = found()
        if not processes:
            return
        end(processes, grace_s)


def _open(process: Process) -> int | None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    current = read(process.pid)
    if current is None or current.started != process.started:
        os.close(descriptor)
        return None
    return descriptor


def _signal(living: dict[int, Process], number: int) -> None:
    for descriptor in living:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)


def _wait(living: dict[int, Process], timeout_s: float) -> None:
    """Remove ended processes from `living` until none is left or the time is up."""
    poll = select.poll()
    for descriptor in living:
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while living and (left_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left_s * 1000):
            poll.unregister(descriptor)
            del living[descriptor]


def _strings(path: Path) -> tuple[str, ...]:
    return tuple(path.read_bytes().decode(errors="replace").split("\0")[:-1])
