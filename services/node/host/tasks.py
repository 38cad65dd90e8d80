"""The processes of an agent's tasks: they outlive the agent."""

from __future__ import annotations

from pathlib import Path

from host import control_groups
from host.mounts import unmount_below
from host.processes import Process, end_all, running
from host.supervisor import MARK

TASK_GRACE_S = 15
HELPER_GRACE_S = 3


def tasks_of(folder: Path) -> list[Process]:
    """The tasks that run out of an agent's folder."""
    return [process for process in running() if _is_task(process, folder)]


def reap(folder: Path, *, grace_s: float = TASK_GRACE_S) -> None:
    """End what runs out of an agent's folder, then unmount below it and remove its tasks' control
    groups.

    Tasks are ended first, so that they can finish within `grace_s`; then the processes that
    supervised them.
    """
    end_all(lambda: tasks_of(folder), grace_s)
    end_all(lambda: [p for p in running() if _descends(p, folder)], HELPER_GRACE_S)
    unmount_below(folder)
    control_groups.remove_below(folder)


def _is_task(process: Process, folder: Path) -> bool:
    return process.has_variable("NOMAD_ALLOC_DIR", below=folder)


def _descends(process: Process, folder: Path) -> bool:
    return _is_task(process, folder) or process.has_variable(MARK, below=folder)
