"""A real pseudo-terminal with a screen, and a board on it with a clock of the test's own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pyte
import pytest

from cli.console import Notes
from tests.waiting import HANG_S

COLUMNS, LINES = 100, 24


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Screen(pyte.HistoryScreen):
    """Notices when it has shown everything: a bell comes last."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines, history=10_000)
        self.rung = threading.Event()

    def bell(self, *_: Any) -> None:
        self.rung.set()

    @property
    def scrolled(self) -> list[str]:
        """What is above the screen."""
        rows = (row for row in self.history.top)
        return ["".join(row[column].data for column in range(self.columns)) for row in rows]

    @property
    def text(self) -> list[str]:
        """All lines that a person can read, without the empty ones at the end."""
        found = [line.rstrip() for line in (*self.scrolled, *self.display)]
        while found and not found[-1]:
            found.pop()
        return found


class Terminal:
    """`shown` is what a person sees once everything has been written."""

    def __init__(self, columns: int = COLUMNS, lines: int = LINES) -> None:
        self.screen = Screen(columns, lines)
        self.received = b""
        self._files = list[TextIO]()
        self.keyboard, self.device = pty.openpty()
        fcntl.ioctl(self.device, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def notes(self, clock: Clock, **variables: str) -> Notes:
        file = os.fdopen(os.dup(self.device), "w", encoding="utf-8")
        self._files.append(file)
        size = {"COLUMNS": str(self.screen.columns), "LINES": str(self.screen.lines)}
        environ = {"TERM": "xterm-256color", **size, **variables}
        return Notes(
            clock, file=file, highlight=False, soft_wrap=True, emoji=False, _environ=environ
        )

    @property
    def shown(self) -> list[str]:
        self.screen.rung.clear()
        os.write(self.device, b"\a")
        assert self.screen.rung.wait(HANG_S)
        return self.screen.text

    def close(self) -> None:
        for file in self._files:
            file.close()
        os.close(self.device)
        self._reader.join(HANG_S)
        os.close(self.keyboard)

    def _read(self) -> None:
        stream = pyte.ByteStream(self.screen)
        with suppress(OSError):  # the other end is closed
            while piece := os.read(self.keyboard, 65536):
                self.received += piece
                stream.feed(piece)


@contextmanager
def terminal(columns: int = COLUMNS, lines: int = LINES) -> Iterator[Terminal]:
    made = Terminal(columns, lines)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def shown_on(notes: Notes, clock: Clock, folder: Path) -> Iterator[None]:
    """Lets `say`, `Phases` and all others use these notes, with durations of their own."""
    from cli import console, progress  # noqa: PLC0415
    from cli.live.board import Board  # noqa: PLC0415
    from cli.live.durations import Durations  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "notes", notes)
        patch.setattr(progress, "notes", notes)
        board = Board(progress._view, clock, Durations(lambda: folder / "durations.json"))
        patch.setattr(progress, "board", board)
        yield
