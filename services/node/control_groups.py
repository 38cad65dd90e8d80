"""Control groups that Nomad makes, as root, for each task, and leaves when its agent ends first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Where Nomad keeps "<allocation>.<task>" (client/lib/cgroupslib/editor.go): version 1, version 2.
PARENTS = ("*/nomad", "cpuset/nomad/reserve", "nomad.slice/*.slice")


def of_allocations_below(folder: Path) -> list[Path]:
    """Those of the tasks whose allocations lie in `folder`, an agent's or all nodes'."""
    known = {allocation.name for allocation in _allocations(folder)}
    return [
        group
        for pattern in PARENTS
        for parent in CONTROL_GROUPS.glob(pattern)
        for group in parent.iterdir()
        if group.name.partition(".")[0] in known
    ]


def remove_below(folder: Path) -> None:
    """Removes them. One that still has a process stays, as the kernel has it."""
    for group in of_allocations_below(folder):
        with suppress(OSError):
            group.rmdir()


def _allocations(folder: Path) -> Iterator[Path]:
    yield from folder.glob("data/alloc/*")
    yield from folder.glob("*/nomad/data/alloc/*")
