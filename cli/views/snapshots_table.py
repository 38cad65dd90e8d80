"""The document of `slipway snapshots` as a table."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.views.tables import plain_table

KIB = 2**10
HEADINGS = ("snapshot", "age", "Consul", "Nomad")
UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def snapshots_table(document: dict[str, Any]) -> RenderableType:
    """All of `kept.document`. Prints nothing itself."""
    where = Text(f"on {document['host']} in {document['folder']}")
    table = plain_table()
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == HEADINGS[0] else "right")
    for row in document["snapshots"]:
        sizes = (row["size_bytes"][system] for system in ("consul", "nomad"))
        table.add_row(Text(row["name"]), Text(age(row["age_s"])), *map(_size, sizes))
    return Group(where, table) if document["snapshots"] else Group(where, Text("none yet"))


def age(seconds: int) -> str:
    """In the largest unit of which it has one, e.g. "3 h"."""
    name, unit_s = next((unit for unit in UNITS if seconds >= unit[1]), UNITS[-1])
    return f"{max(0, seconds) // unit_s} {name}"


def _size(size_bytes: int | None) -> Text:
    if size_bytes is None:
        return Text("missing", style="red")
    return Text(f"{size_bytes / KIB:,.1f} KiB")
