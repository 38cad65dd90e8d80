"""The line of a log that says what goes on while nothing ends."""

from __future__ import annotations

from collections.abc import Iterator

from cli.live.rows import Row, heading, rows
from cli.live.work import QUEUED, Expected, Work

NAMED = 3  # the rest of what is in progress is counted


def sentence(work: Work, now_s: float, expected: Expected) -> str:
    """How far the phase is, and the first of what is in progress."""
    head = heading(work, now_s, expected)
    begun = f"{head.clock}  {head.name}: still running ({', '.join(head.figures)})" if head else ""
    going_on = ", ".join(_in_progress(rows(work, now_s, expected)))
    return ": ".join(part for part in (begun, going_on) if part)


def _in_progress(found: list[Row]) -> Iterator[str]:
    active = [row for row in found if row.state != QUEUED]
    for row in active[:NAMED]:
        yield " ".join(part for part in (row.name, row.state, f"({row.figures})") if part)
    if len(active) > NAMED:
        yield f"{len(active) - NAMED} more"
    if len(active) < len(found):
        yield f"{len(found) - len(active)} {QUEUED}"
