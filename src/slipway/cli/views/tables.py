"""The common look of the tables of plans, comparisons and replays."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text


def plain_table(title: str | None = None) -> Table:
    """A table without columns yet: a line under the header, and no borders."""
    named = None if title is None else Text(title, style="table.title")  # not interpreted as markup
    return Table(title=named, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
