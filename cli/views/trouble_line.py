"""A line for a host that is down, has not joined or takes no work, with the command that mends
it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text


def trouble_line(trouble: Mapping[str, str]) -> Text:
    return Text(f"{trouble['host']} {trouble['what']}\n    fix: {trouble['fix']}", style="yellow")
