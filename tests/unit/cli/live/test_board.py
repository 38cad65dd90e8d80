"""What the board does when something fails, or Ctrl-C comes, where it shows the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.live.board import Board
from cli.live.durations import Durations
from cli.live.work import Expected, Phase, Work
from tests.waiting import until

TOOLS = Phase(name="tools", about="all", command_s=0.0, since_s=0.0, key="tools")


class Shown:
    """A view that counts how often it has shown the work, and asks each wait what it waits for.
    With `interrupts`, Ctrl-C comes when a phase begins."""

    def __init__(self, *, interrupts: bool = False) -> None:
        self.shown = 0
        self._interrupts = interrupts

    def begin(self, line: str) -> None:
        if self._interrupts:
            raise KeyboardInterrupt(line)

    def log(self, line: str) -> None:
        """Nothing is logged."""

    def show(self, work: Work, now_s: float, expected: Expected) -> None:
        for wait in work.waits:
            wait.what()
        self.shown += 1

    def close(self) -> None:
        """Nothing is left open."""


def board(view: Callable[[], Shown], folder: Path) -> Board:
    return Board(view, lambda: 0.0, Durations(lambda: folder / "durations.json"))


def test_what_cannot_be_said_once_is_shown_the_next_time(tmp_path: Path) -> None:
    view, asked = Shown(), list[str]()

    def what() -> str:
        asked.append("")
        if len(asked) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return "a replica"

    with board(lambda: view, tmp_path).wait(what):
        until(lambda: view.shown > 0)


def test_a_phase_that_ctrl_c_ends_as_it_begins_is_not_left_on_the_board(tmp_path: Path) -> None:
    made = board(lambda: Shown(interrupts=True), tmp_path)
    with pytest.raises(KeyboardInterrupt), made.phase(TOOLS, "tools: all"):
        pass
    assert made.work() == Work()


def test_a_wait_that_ctrl_c_ends_as_it_begins_is_not_left_on_the_board(tmp_path: Path) -> None:
    def interrupted() -> Shown:
        raise KeyboardInterrupt

    made = board(interrupted, tmp_path)
    with pytest.raises(KeyboardInterrupt), made.wait(lambda: "x"):
        pass
    assert made.work() == Work()
