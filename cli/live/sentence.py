"""The line of a log that says what goes on while nothing ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cli.live.rows import Row, heading, rows
from cli.live.work import QUEUED, Expected, Work

NAMED = 3  # the rest of what is in progress is counted


def sentence(work: Work, now_s: float, expected: Expected) -> str:
    """How far the phase is, and the first of what is in progress."""
    head = heading(work, now_s, expected)
    begun = f"{head.clock}  {head.name}: still running ({', '.join(head.figures)})" if head else ""
    said = {operation.name: operation.detail for operation in work.operations}
    going_on = ", ".join(_in_progress(rows(work, now_s, expected), said))
    return ": ".join(part for part in (begun, going_on) if part)


def _in_progress(found: list[Row], said: Mapping[str, str]) -> Iterator[str]:
    """`said`: what the commands of resources have printed last."""
    active = [row for row in found if row.state != QUEUED]
    for row in active[:NAMED]:
        parts = (row.name, row.state, f"({row.figures})", said.get(row.name, ""))
        yield " ".join(part for part in parts if part)
    if len(active) > NAMED:
        yield f"{len(active) - NAMED} more"
    if len(active) < len(found):
        yield f"{len(found) - len(active)} {QUEUED}"
