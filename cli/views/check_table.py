"""The document of `slipway check` as a table."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.views.tables import plain_table

STYLES = {"pass": "green", "fail": "red", "gap": "yellow"}


def check_table(document: dict[str, Any]) -> RenderableType:
    """What was found, and what follows for each host. Prints nothing itself."""
    table = plain_table()
    for heading in ("host", "with", "check", "verdict", "found"):
        table.add_column(heading)
    for each in document["findings"]:
        verdict = Text(each["verdict"], style=STYLES[each["verdict"]])
        table.add_row(each["host"], each["peer"] or "", each["check"], verdict, each["reason"])
    return Group(table, *(_line(each) for each in document["hosts"]))


def _line(host: dict[str, Any]) -> Text:
    takes = "takes members" if host["takes_members"] else "takes no members"
    if not host["reason"]:
        return Text(f"{host['name']} {host['verdict']}: it {takes}", style="green")
    style = "yellow" if host["takes_members"] else "red"
    said = f"{host['name']} {host['verdict']}: it {takes}: {host['reason']}"
    return Text(f"{said}\n    fix: {host['fix']}", style=style)
