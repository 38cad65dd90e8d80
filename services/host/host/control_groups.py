"""Control groups that Nomad creates for each task, and leaves behind if its agent ends first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from program.errors import HostError
from program.waiting import say, wait_until

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Where Nomad keeps "<allocation>.<task>" (client/lib/cgroupslib/editor.go): version 1, version 2.
PARENTS = ("*/nomad", "cpuset/nomad/reserve", "nomad.slice/*.slice")
GRACE_S = 5.0  # the kernel frees a group a moment after its last process has ended


def of_allocations_below(folder: Path) -> list[Path]:
    """Control groups of the tasks with allocations in `folder`, an agent's or all nodes'."""
    return [
        group
        for allocation in _allocations(folder)
        for parent in PARENTS
        for group in CONTROL_GROUPS.glob(f"{parent}/{allocation.name}.*")
    ]


def remove_below(folder: Path) -> None:
    """Removes these groups. Groups that still hold a process are left and logged."""
    try:
        wait_until("control groups of ended tasks", lambda: _left(folder), GRACE_S)
    except (HostError, OSError) as error:
        say(str(error))


def _left(folder: Path) -> str | None:
    groups = of_allocations_below(folder)
    for group in groups:
        with suppress(OSError):
            group.rmdir()
    return ", ".join(str(group) for group in groups if group.exists()) or None


def _allocations(folder: Path) -> Iterator[Path]:
    yield from folder.glob("data/alloc/*")
    yield from folder.glob("*/nomad/data/alloc/*")
