"""Where output goes: results to stdout, progress and messages to stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from rich.console import Console, RenderableType


class Notes(Console):
    """A console that knows when it last printed."""

    silent_since_s = time.monotonic()

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*objects, **options)
        self.silent_since_s = time.monotonic()


# Paths and addresses are copied from the output: lines are neither wrapped nor highlighted. Emoji
# are off, because rich would take "slipway:key:" for the name of one.
results = Console(highlight=False, soft_wrap=True, emoji=False)
notes = Notes(stderr=True, highlight=False, soft_wrap=True, emoji=False)

UNBOUNDED_WIDTH = 160  # of tables in a file or a pipe
LEAST_WIDTH = 80  # narrower terminals wrap the lines of tables themselves


def print_tables(tables: RenderableType) -> None:
    """Prints tables as a result, in the width of the terminal if there is one. In a file or a pipe
    their width is COLUMNS if that is set."""
    console = Console(highlight=False, emoji=False)
    known = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    console.width = max(LEAST_WIDTH, console.width) if known else UNBOUNDED_WIDTH
    console.print(tables)


def say(text: str, *, style: str | None = None) -> None:
    """Prints a line about the work in progress."""
    notes.print(text, style=style, markup=False)


def write_json(document: Any, *, indent: int | None = 2) -> None:
    """Prints a result for scripts; `indent=None` puts it on one line."""
    sys.stdout.write(json.dumps(document, indent=indent, sort_keys=indent is not None) + "\n")
    sys.stdout.flush()
