"""Promised beside measured figures: a table for people, a document for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from cli.views.tables import plain_table
from slipway.planner.reports.comparison import ComparedName, Comparison, Measured

SCHEMA_VERSION = 1


def comparison_table(
    rows: Iterable[Comparison], names: Iterable[ComparedName], *, window_s: int
) -> RenderableType:
    """Prints nothing itself."""
    table = plain_table(f"promised and measured over the last {window_s} s")
    table.add_column("", overflow="fold")
    for heading in ("promised", "measured", "ratio", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    named = list(names)
    for model, figures in groupby(rows, key=lambda row: row.model):
        table.add_row(model)
        for row in figures:
            table.add_row(
                f"  {row.quantity}",
                _number(row.promised, row.unit),
                _number(row.measured, row.unit),
                "-" if row.ratio is None else f"{row.ratio:.2f}",
                {None: "", True: "within", False: "outside"}[row.within],
            )
        for name in named:
            if name.model == model:
                table.add_row(
                    f"  {name.quantity}", name.promised or "-", name.measured or "-", "", ""
                )
    legend = "TTFT and TPOT are means; -: not promised, not reported, or no request was served."
    return Group(table, Text(legend, style="dim"))


def comparison_document(
    rows: Iterable[Comparison], names: Iterable[ComparedName], measured: Mapping[str, Measured]
) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "rows": [
            {**dataclasses.asdict(row), "ratio": row.ratio, "within": row.within} for row in rows
        ],
        "names": [dataclasses.asdict(name) for name in names],
        "measured": {name: dataclasses.asdict(seen) for name, seen in measured.items()},
    }


def _number(value: float | None, unit: str) -> str:
    """With four digits, and large ones with all that are whole."""
    if value is None:
        return "-"
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{shown} {unit}".rstrip()
