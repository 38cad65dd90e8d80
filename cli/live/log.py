"""The lines of a log: what begins, what has ended, and a sign of life in a long silence."""

from __future__ import annotations

from cli.console import Notes
from cli.live.clock import clock
from cli.live.rows import MOMENT_S
from cli.live.sentence import sentence
from cli.live.work import Expected, Wait, Work

SILENCE_S = 30.0  # never longer; so bench/cold.py's bar


class Log:
    """A `View` of lines that are never drawn again."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._told = list[Wait]()

    def begin(self, line: str) -> None:
        self._notes.print(line, style="bold", markup=False)

    def log(self, line: str) -> None:
        self._notes.print(line, markup=False)

    def show(self, work: Work, now_s: float, expected: Expected) -> None:
        for wait in work.waits:
            lasts_s = now_s - wait.since_s
            if lasts_s >= MOMENT_S and wait not in self._told:
                self._told.append(wait)
                self.log(f"  {wait.what()} ({clock(lasts_s).strip()})")
        if now_s - self._notes.silent_since_s >= SILENCE_S:
            self.log(sentence(work, now_s, expected))

    def close(self) -> None:
        """Nothing is left open."""
