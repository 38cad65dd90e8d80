"""Where output goes: results to stdout, progress and messages to stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, RenderableType


class Notes(Console):
    """A console that knows when it last printed, and below whose lines a block may be drawn.

    Who prints has `turn`: otherwise two threads could erase the same lines of the block.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, **options: Any) -> None:
        super().__init__(**options)
        self.clock = clock
        self.turn = threading.RLock()
        self.silent_since_s = clock()

    def print(self, *objects: Any, **options: Any) -> None:
        with self.turn:
            super().print(*objects, **options)
            self.silent_since_s = self.clock()

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
        """Never hides it: a command that is killed could not show it again."""
        return False

    @property
    def redraws(self) -> bool:
        """Whether a person watches a terminal that can draw lines again. FORCE_COLOR makes none of
        a file, and the terminals of most CI systems are files in the end."""
        return self.is_interactive and self.file.isatty() and not os.environ.get("CI")


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
