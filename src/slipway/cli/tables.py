"""The look that the tables of plans, comparisons and replays share."""

from __future__ import annotations

from rich import box
from rich.table import Table


def plain_table(title: str | None = None) -> Table:
    """Without columns yet: rows under one line, and nothing around them."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
