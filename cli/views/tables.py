"""The common look of the tables of plans, comparisons and replays. None of them cuts a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, zip_longest

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_SEPARATOR = 2  # spaces between columns
_EDGES = 2  # one space at each side of a table


def plain_table(title: str | None = None) -> Table:
    """A table without columns yet: a line under the header, and no borders."""
    named = None if title is None else Text(title, style="table.title")  # not interpreted as markup
    return Table(
        title=named,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, _SEPARATOR - 1, 0, 0),
        pad_edge=False,
    )


class FirstThatFits:
    """The first of several tables of the same content that is no wider than the console; else the
    last one, which wraps."""

    def __init__(self, *tables: Table) -> None:
        self.tables = tables

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        unlimited = options.update(width=10_000)
        for table in self.tables[:-1]:
            if Measurement.get(console, unlimited, table).maximum <= options.max_width:
                yield table
                return
        yield self.tables[-1]


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and a cell for every row, each on one line."""

    heading: str
    cells: Sequence[str | Text]
    justify: JustifyMethod = "right"

    @property
    def width(self) -> int:
        lines = [*self.heading.splitlines(), *map(str, self.cells)]
        return max(map(len, lines))


class DividedTable:
    """A table that becomes several, one below the other, where it is wider than the console. Each
    of them begins with the column `names`, whose cells wrap if they are very long."""

    def __init__(self, title: str, names: Column, columns: Sequence[Column]) -> None:
        self.title, self.names, self.columns = title, names, columns

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        named = min(self.names.width, options.max_width // 3)
        room = options.max_width - _EDGES - named
        title: str | None = self.title
        for part in divided([column.width + _SEPARATOR for column in self.columns], room):
            yield self._table(title, named, self.columns[part])
            title = None

    def _table(self, title: str | None, named: int, columns: Sequence[Column]) -> Table:
        table = plain_table(title)
        table.add_column(self.names.heading, overflow="fold", width=named)
        for column in columns:
            table.add_column(column.heading, justify=column.justify, no_wrap=True)
        for row in zip_longest(self.names.cells, *(column.cells for column in columns)):
            table.add_row(*row)
        return table


def divided(widths: Sequence[int], room: int) -> list[slice]:
    """As few parts of `widths`, in order, as have room, the widest part as narrow as possible. A
    width that exceeds the room is a part of its own."""

    def parts(breaks: tuple[int, ...]) -> list[slice]:
        return [slice(*ends) for ends in pairwise((0, *breaks, len(widths)))]

    def widest(breaks: tuple[int, ...]) -> int:
        return max(sum(widths[part]) for part in parts(breaks))

    for count in range(len(widths)):
        best = min(combinations(range(1, len(widths)), count), key=widest)
        if widest(best) <= room:
            return parts(best)
    return parts(tuple(range(1, len(widths))))
