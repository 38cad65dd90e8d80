"""What is shown of the work at a moment, row by row; nothing is known here of where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cli.live.clock import clock
from cli.live.work import QUEUED, Expected, Phase, Piece, Work, remaining_s
from toolchain.progress import share

MOMENT_S = 2.0  # a wait that lasts longer is reported
NEARLY = 0.97  # what takes longer than expected is not shown as complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`share` is how much is done, from 0 to 1; None if that cannot be known."""

    name: str
    state: str = ""
    share: float | None = None
    figures: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    clock: str  # since the command began
    name: str
    about: str
    figures: tuple[str, ...]  # the last one says most


def heading(work: Work, now_s: float, expected: Expected) -> Heading | None:
    """The phase, and how far it is; None outside of one."""
    phase = work.phase
    if phase is None:
        return None
    return Heading(
        clock=clock(now_s - phase.command_s),
        name=phase.name,
        about=phase.about,
        figures=tuple(_how_far(phase, work, now_s, expected)),
    )


def rows(work: Work, now_s: float, expected: Expected) -> list[Row]:
    """The unfinished pieces, those in progress before those that wait for their turn; then what is
    waited for."""
    tools = sorted(work.tools, key=lambda tool: tool.state == QUEUED)
    pieces = [*tools, *work.operations]
    shown = [_row(piece, now_s, expected) for piece in pieces]
    for wait in work.waits:
        if now_s - wait.since_s >= MOMENT_S:
            shown.append(
                Row(name=_one_line(wait.what()), figures=clock(now_s - wait.since_s).strip())
            )
    return shown


def _how_far(phase: Phase, work: Work, now_s: float, expected: Expected) -> Iterator[str]:
    if work.changes:
        yield f"{work.changes} changed"
    # Most tools are there already, so what a phase took the last time says nothing of this one.
    yield _time(now_s - phase.since_s, None if work.tools else expected(phase.key))
    if work.tools:
        yield f"{work.tools_ready} of {work.tools_ready + len(work.tools)} ready"
        if left_s := remaining_s(work, now_s, expected):
            yield f"~{clock(left_s).strip()} left"


def _row(piece: Piece, now_s: float, expected: Expected) -> Row:
    elapsed_s, known_s = now_s - piece.since_s, expected(piece.key)
    received = share(piece.detail)
    if received is not None:
        return Row(name=piece.name, state=piece.state, share=received, figures=piece.detail)
    return Row(
        name=piece.name,
        state=piece.state,
        share=min(NEARLY, elapsed_s / known_s) if known_s else None,
        figures=_time(elapsed_s, known_s),
        detail=_one_line(piece.detail),
    )


def _one_line(text: str) -> str:
    """Without what would move the cursor: a command's output may hold anything."""
    return "".join(each if each.isprintable() else " " for each in text)


def _time(elapsed_s: float, expected_s: float | None) -> str:
    elapsed = clock(elapsed_s).strip()
    return f"{elapsed} of ~{clock(expected_s).strip()}" if expected_s else elapsed
