"""The document of `slipway hosts` as a table."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.views.tables import plain_table
from cli.views.trouble_line import trouble_line

GIB = 2**30
UNKNOWN = "?"
HEADINGS = (
    "host", "pool", "address", "Consul", "Nomad", "takes work", "versions", "certificate until",
    "free disk", "units not active",
)  # fmt: skip
GOOD = {"alive", "ready", "yes"}

Row = dict[str, Any]


def hosts_table(document: dict[str, Any]) -> RenderableType:
    """All of `inventory`. Prints nothing itself."""
    table = plain_table()
    for heading in HEADINGS:
        table.add_column(heading)
    for row in document["hosts"]:
        table.add_row(*_cells(row))
    return Group(table, *_remarks(document))


def _cells(row: Row) -> Iterator[Text]:
    yield Text(row["name"])
    yield Text(row["pool"] if row["role"] == "node" else "server")
    yield Text(row["address"])
    yield _state((row["consul"] or {}).get("state"))
    yield _state((row["nomad"] or {}).get("state"))
    yield _state(row["takes_work"]) if row["role"] == "node" else Text("")
    yield _versions(row)
    if row["not_reached"]:
        yield from (Text(UNKNOWN), Text(UNKNOWN), Text("not reached", style="red"))
    elif row["free_bytes"] is None:
        yield from (Text(""), Text(""), Text(""))
    else:
        yield from (_ends(row["certificate_ends"]), _disk(row["free_bytes"]), _units(row))


def _state(state: str | None) -> Text:
    if state is None:
        return Text(UNKNOWN)
    return Text(state, style="" if state in GOOD else "yellow")


def _versions(row: Row) -> Text:
    shown = Text()
    for name in ("consul", "nomad"):
        if version := (row[name] or {}).get("version"):
            if planned := row["planned_instead"].get(name):
                shown.append(f"{name} {version} (plan: {planned}) ", style="yellow")
            else:
                shown.append(f"{name} {version} ")
    return shown


def _ends(moment: str | None) -> Text:
    if moment is None:
        return Text("none")
    over = datetime.datetime.fromisoformat(moment) < datetime.datetime.now(datetime.UTC)
    return Text(moment[:10], style="red" if over else "")


def _disk(free_bytes: int) -> Text:
    return Text(f"{free_bytes / GIB:.1f} GiB")


def _units(row: Row) -> Text:
    inactive = [f"{name} {state}" for name, state in sorted(row["inactive_units"].items())]
    return Text(", ".join(inactive) or "none", style="red" if inactive else "")


def _remarks(document: dict[str, Any]) -> Iterator[Text]:
    name = document["environment"]
    for cluster, reason in document["unreachable"].items():
        yield Text(f"{cluster} does not answer: {reason}", style="yellow")
    failures = [row["not_reached"] for row in document["hosts"] if row["not_reached"]]
    for reason, fix in dict.fromkeys((each["reason"], each["fix"]) for each in failures):
        yield Text(f"{reason}\n    fix: {fix}" if fix else reason, style="yellow")
    yield from (trouble_line(trouble) for trouble in document["troubles"])
    for row in document["hosts"]:
        if not row["in_file"]:
            yield Text(
                f"{row['name']} is not in the files of {name}: slipway up -s {name} removes it; if"
                f" the machine is gone, slipway forget {row['name']} -s {name}",
                style="yellow",
            )
