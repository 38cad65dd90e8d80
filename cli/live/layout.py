"""Rows as lines that fit into a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from cli.live.rows import Heading, Row

NARROW = 60  # columns; below, a row has neither a bar nor a detail
BAR = 24
LEAST_BAR = 8
NAME = 28
GAP = "  "
INDENT = 8  # of rows: below the name of the phase
ENDS = ("━", "╸", "─")  # done, the half of a column, still to do
PLAIN_ENDS = ("#", "#", "-")  # for terminals without Unicode


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    text: str
    style: str = ""


Line = list[Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    columns: int
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Widths:
    name: int
    state: int
    figures: int


def lines(head: Heading | None, rows: list[Row], size: Size, ends: tuple[str, ...]) -> list[Line]:
    """At most one line less than the terminal has, so that the last message stays visible."""
    first = [_heading(head, size.columns)] if head else []
    room = max(1, size.lines - 1 - len(first))
    shown, hidden = rows[:room], len(rows) - room
    if hidden > 0:
        shown, hidden = rows[: room - 1], hidden + 1
    if size.columns < NARROW:
        found = [_narrow(row, size.columns) for row in shown]
    else:
        found = _columns(shown, size.columns, ends)
    more: list[Line] = [[Span(text=f"{'':{INDENT}}and {hidden} more", style="dim")]]
    return [*first, *found, *(more if hidden > 0 else [])]


def _heading(head: Heading, columns: int) -> Line:
    begun, figures = f"{head.clock}  {head.name}", list(head.figures)
    while len(figures) > 1 and len(begun) + len(_joined(figures)) > columns:
        del figures[0]
    full = f"{begun}: {head.about}"
    fits = len(full) + len(_joined(figures)) <= columns
    return [Span(text=full if fits else begun, style="bold"), Span(text=_joined(figures))]


def _joined(figures: list[str]) -> str:
    return f" ({', '.join(figures)})"


def _narrow(row: Row, columns: int) -> Line:
    label = f"  {row.name} {row.state}".rstrip()
    room = max(0, columns - len(row.figures) - 1)
    return [Span(text=f"{_cut(label, room):{room}} "), Span(text=row.figures)]


def _columns(rows: list[Row], columns: int, ends: tuple[str, ...]) -> list[Line]:
    """Name, state, figures, and a bar or a detail in what is left."""
    widths = _Widths(
        name=min(NAME, max((len(row.name) for row in rows if row.state), default=0)),
        state=max(map(len, ("downloading", *(row.state for row in rows)))),
        figures=max(map(len, ("0:00 of ~0:00", *(row.figures for row in rows if row.state)))),
    )
    room = columns - INDENT - widths.name - widths.state - widths.figures - 3 * len(GAP)
    return [_line(row, widths, room, ends) for row in rows]


def _line(row: Row, widths: _Widths, room: int, ends: tuple[str, ...]) -> Line:
    if not row.state:  # something waited for
        return [Span(text=f"{'':{INDENT}}{row.name} ({row.figures})")]
    name, state = f"{_cut(row.name, widths.name):{widths.name}}", f"{row.state:{widths.state}}"
    begun = Span(text=GAP.join((f"{'':{INDENT}}{name}", state, f"{row.figures:{widths.figures}}")))
    if room < LEAST_BAR:
        return [begun]
    if row.share is None:
        return [begun, Span(text=GAP + _cut(row.detail, room), style="dim")]
    return [begun, Span(text=GAP), *_bar(row.share, min(BAR, room), ends)]


def _bar(share: float, width: int, ends: tuple[str, ...]) -> Line:
    done, half, left = ends
    halves = round(share * width * 2)
    filled = done * (halves // 2) + half * (halves % 2)
    return [Span(text=filled, style="green"), Span(text=left * (width - len(filled)), style="dim")]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 1)]}…"
