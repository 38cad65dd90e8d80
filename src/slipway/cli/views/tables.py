"""The look that the tables of plans, comparisons and replays share."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text


def plain_table(title: str | None = None) -> Table:
    """Without columns yet: rows under one line, and nothing around them."""
    named = None if title is None else Text(title, style="table.title")  # no markup in it
    return Table(title=named, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
