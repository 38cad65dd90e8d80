"""The arithmetic behind one model, with what its lines have in common as footnotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.views.tables import plain_table
from slipway.planner.reports.explain import Line
from slipway.planner.reports.footnotes import with_footnotes

_LEAST_COLUMNS_WIDTH = 120  # narrower, sources are below their lines
_BELOW = (0, 0, 0, 4)  # an indent


def explain_table(model: str, lines: Iterable[Line]) -> RenderableType:
    """Prints nothing itself."""
    shown, notes = with_footnotes(lines)
    return Group(
        _Arithmetic(f"{model}: the arithmetic", shown),
        *(Text(f"[{number}] {note}", style="dim") for number, note in enumerate(notes, 1)),
    )


class _Arithmetic:
    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        self.title, self.lines = title, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _LEAST_COLUMNS_WIDTH:
            yield _in_columns(self.title, self.lines)
        else:
            yield Text(self.title, style="table.title")
            yield from _with_sources_below(self.lines, options.max_width)
            yield ""


def _in_columns(title: str, lines: Iterable[Line]) -> Table:
    table = plain_table(title)
    table.add_column("quantity", no_wrap=True)
    table.add_column("result", justify="right", no_wrap=True)
    table.add_column("from", overflow="fold", ratio=1)
    table.add_column("source", overflow="fold", ratio=2, style="dim")
    for line in lines:
        table.add_row(line.quantity, line.result, line.arithmetic, _source(line))
    return table


def _with_sources_below(lines: Sequence[Line], width: int) -> Iterator[RenderableType]:
    quantities = max(len(line.quantity) for line in lines)
    results = max(len(line.result) for line in lines)
    for line in lines:
        shown = f"{line.quantity:<{quantities}}  {line.result:>{results}}"
        below = [text for text in (line.arithmetic, _source(line)) if text]
        while below and len(f"{shown}  {below[0]}") <= width:
            shown += f"  {below.pop(0)}"
        yield Text(shown)
        yield from (Padding(Text(text, style="dim"), _BELOW) for text in below)


def _source(line: Line) -> str:
    return f"{line.basis}: {line.source}" if line.basis else line.source
