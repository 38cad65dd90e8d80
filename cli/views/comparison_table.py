"""Promised beside measured figures: a table for people, a document for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from cli.views.tables import plain_table
from slipway.planner.reports.comparison import Comparison, Measured

SCHEMA_VERSION = 1


def comparison_table(rows: Iterable[Comparison], *, window_s: int) -> RenderableType:
    """Prints nothing itself."""
    table = plain_table(f"promised and measured over the last {window_s} s")
    table.add_column("", overflow="fold")
    for heading in ("promised", "measured", "ratio", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    last = ""
    for row in rows:
        if row.model != last:
            table.add_row(row.model)
        table.add_row(
            f"  {row.quantity}",
            _number(row.promised, row.unit),
            _number(row.measured, row.unit),
            "-" if row.ratio is None else f"{row.ratio:.2f}",
            {None: "", True: "within", False: "outside"}[row.within],
        )
        last = row.model
    legend = "TTFT and TPOT are means; -: not promised, or no request was served."
    return Group(table, Text(legend, style="dim"))


def comparison_document(
    rows: Iterable[Comparison], measured: Mapping[str, Measured]
) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "rows": [
            {**dataclasses.asdict(row), "ratio": row.ratio, "within": row.within} for row in rows
        ],
        "measured": {name: dataclasses.asdict(seen) for name, seen in measured.items()},
    }


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.4g} {unit}".rstrip()
