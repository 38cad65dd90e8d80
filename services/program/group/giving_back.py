"""A host that is given back: the allocation of a member whose group stays incomplete fails, so that
the scheduler may use its host for others.

Nomad starts a task that ends again on the same host, a few times, before the allocation fails. A
member that has given up leaves a note in its task's folder, which lives as long as the allocation,
and its next processes end at once.
"""

from __future__ import annotations

from pathlib import Path

NOTE = "slipway-incomplete"


def give_back(task_folder: Path, reason: str) -> None:
    (task_folder / NOTE).write_text(reason, encoding="utf-8")


def given_back(task_folder: Path) -> str:
    """Why this allocation's host is given back; empty if it is not."""
    try:
        return (task_folder / NOTE).read_text(encoding="utf-8")
    except OSError:
        return ""
