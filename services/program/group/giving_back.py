"""A host that is given back: the allocation of a member whose group stays incomplete fails, so that
the scheduler may use its host for others.

Nomad starts a task that ends again on the same host, a few times, before the allocation fails. A
member that has given up leaves a note in its task's folder, and further processes of the same
allocation end at once. The folder may outlive the allocation: Nomad hands it to a replacement on
the same host, which waits for the others as any member does.
"""

from __future__ import annotations

import random
from pathlib import Path

NOTE = "slipway-incomplete"
MOST_PATIENCE = 1.5  # times the least


def patience_s(least_s: float) -> float:
    """How long a member waits for the others: each time another while. Two incomplete groups that
    always gave up together would take each other's hosts, and neither would ever be whole."""
    return least_s * random.uniform(1, MOST_PATIENCE)  # noqa: S311 (no secret)


def give_back(task_folder: Path, allocation: str, reason: str) -> None:
    (task_folder / NOTE).write_text(f"{allocation}\n{reason}", encoding="utf-8")


def given_back(task_folder: Path, allocation: str) -> str:
    """Why this allocation's host is given back; empty if it is not."""
    try:
        noted, _, reason = (task_folder / NOTE).read_text(encoding="utf-8").partition("\n")
    except OSError:
        return ""
    return reason if noted == allocation else ""
