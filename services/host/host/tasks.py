"""The processes of an agent's tasks: they outlive the agent."""

from __future__ import annotations

from pathlib import Path

from host import control_groups
from host.mounts import unmount_below
from host.processes import Process, end_all, running
from host.supervisor import MARK

TASK_GRACE_S = 15
HELPER_GRACE_S = 3


# They pass on the requests of another task of the same replica (components/serving/tls_proxy.py).
PASSING_ON = frozenset({"tls-proxy"})


def tasks_of(folder: Path) -> list[Process]:
    """The tasks that run out of an agent's folder."""
    return [process for process in running() if _is_task(process, folder)]


def finish(folder: Path, timeout_s: float) -> None:
    """Have the tasks of an agent that has ended finish their requests and end.

    Only the first process of each task gets the signal, because it ends its others itself; those
    that pass on requests get none.
    """
    end_all(lambda: _first_processes(folder), timeout_s)


def _first_processes(folder: Path) -> list[Process]:
    tasks = tasks_of(folder)
    ids = {process.pid for process in tasks}
    return [
        process
        for process in tasks
        if process.parent not in ids and process.variable("NOMAD_TASK_NAME") not in PASSING_ON
    ]


def reap(folder: Path) -> None:
    """End what runs out of an agent's folder, then unmount below it and remove its tasks' control
    groups.

    Tasks are ended first, so that they can end cleanly; then the processes that supervised them.
    """
    end_all(lambda: tasks_of(folder), TASK_GRACE_S)
    end_all(lambda: [p for p in running() if _descends(p, folder)], HELPER_GRACE_S)
    unmount_below(folder)
    control_groups.remove_below(folder)


def _is_task(process: Process, folder: Path) -> bool:
    return process.has_variable("NOMAD_ALLOC_DIR", below=folder)


def _descends(process: Process, folder: Path) -> bool:
    return _is_task(process, folder) or process.has_variable(MARK, below=folder)
