"""The block on a terminal: drawn again and again below what is printed meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from cli.console import Notes
from cli.live.layout import ENDS, PLAIN_ENDS, Line, Size, lines
from cli.live.rows import heading, rows
from cli.live.work import Expected, Work

if TYPE_CHECKING:
    from rich.live import Live

APPEARS_S = 1.0  # what takes less needs no block


class Block:
    """A `View` that leaves nothing behind: what has ended is printed above it."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._begun_s = notes.clock()
        self._live: Live | None = None

    def begin(self, line: str) -> None:
        """The block itself says it."""

    def log(self, line: str) -> None:
        """The block has shown it."""

    def show(self, work: Work, now_s: float, expected: Expected) -> None:
        if now_s - self._begun_s < APPEARS_S:
            return
        size = Size(columns=self._notes.width, lines=self._notes.height)
        ends = ENDS if self._notes.encoding.startswith("utf") else PLAIN_ENDS
        head, found = heading(work, now_s, expected), rows(work, now_s, expected)
        with self._notes.turn:
            self._live = self._live or _begun(self._notes)
            self._live.update(_text(lines(head, found, size, ends)), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            with self._notes.turn:
                self._live.stop()


def _begun(notes: Notes) -> Live:
    # Imported here: a command that is done at once draws nothing.
    from rich.live import Live  # noqa: PLC0415

    live = Live(
        console=notes,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )
    live.start()
    return live


def _text(drawn: list[Line]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for number, line in enumerate(drawn):
        text.append("\n" if number else "")
        for span in line:
            text.append(span.text, style=span.style)
    return text
