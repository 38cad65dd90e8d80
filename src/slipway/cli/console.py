"""Where output goes: results to stdout, everything about the way there to stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console, RenderableType


class Notes(Console):
    """Knows since when it has been silent."""

    silent_since_s = time.monotonic()

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **options)
        self.silent_since_s = time.monotonic()


# Paths and addresses are copied from the output: never broken over lines, never coloured by guess.
# No pictures either: "slipway:key: ..." has the form of a smiley's name.
results = Console(highlight=False, soft_wrap=True, emoji=False)
notes = Notes(stderr=True, highlight=False, soft_wrap=True, emoji=False)

UNBOUNDED_WIDTH = 160  # of tables in a file or a pipe, where nobody's window is too narrow


def print_tables(tables: RenderableType) -> None:
    """Tables as a result: in the width of the terminal, if there is one."""
    wide = Console(width=UNBOUNDED_WIDTH, highlight=False, emoji=False)
    console = results if results.is_terminal else wide
    console.print(tables, soft_wrap=False)


def say(text: str, *, style: str | None = None) -> None:
    """A line about the work in hand."""
    notes.print(text, style=style, markup=False)


def write_json(document: Any, *, indent: int | None = 2) -> None:
    """A result for scripts; `indent=None` puts it on one line."""
    sys.stdout.write(json.dumps(document, indent=indent, sort_keys=indent is not None) + "\n")
    sys.stdout.flush()
