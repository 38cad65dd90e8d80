"""What a log gets: few lines, and never a long silence."""

from __future__ import annotations

import io
import math
import re
from itertools import pairwise
from pathlib import Path

import pytest

from cli import progress
from cli.console import Notes, say
from cli.live.log import SILENCE_S
from cli.progress import Phases, ToolchainProgress, telling
from tests.unit.cli.live.preparation import SECONDS, TOOLS, WARNING, prepare
from tests.unit.cli.live.terminal import Clock, shown_on


class Lines(io.StringIO):
    """Also keeps when each line came."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.at_s = list[float]()

    def write(self, text: str) -> int:
        self.at_s += [self.clock.now_s] * text.count("\n")
        return super().write(text)


def written(clock: Clock) -> tuple[Notes, Lines]:
    file = Lines(clock)
    return Notes(clock, file=file, highlight=False, soft_wrap=True, emoji=False), file


def test_a_long_preparation_is_a_line_of_each_tool_and_one_in_thirty_seconds(
    tmp_path: Path,
) -> None:
    clock = Clock()
    notes, file = written(clock)
    began_s = clock.now_s
    with shown_on(notes, clock, tmp_path):
        prepare(clock)
    lines = file.getvalue().splitlines()
    told = [line for line in lines if "still running" in line]
    of_phases = 2 * 3
    assert len(told) <= math.ceil(SECONDS / SILENCE_S)
    assert len(lines) == len(told) + of_phases + len(TOOLS) + lines.count(WARNING)
    moments = [began_s, *file.at_s, clock.now_s]
    assert max(later - one for one, later in pairwise(moments)) <= SILENCE_S
    for tool in TOOLS:
        assert len([line for line in lines if line.startswith(f"  {tool}: ready after ")]) == 1
    assert "nomad building (4:10 of ~4:25)" in "\n".join(told)
    assert re.search(
        r"\(\d+:\d\d, 4 of 9 ready, ~\d+:\d\d left\): .*, 4 queued$", "\n".join(told), re.M
    )


def test_a_failed_phase_is_said_to_have_failed_and_is_not_called_done(tmp_path: Path) -> None:
    clock = Clock()
    notes, file = written(clock)
    phases = Phases()
    with (
        shown_on(notes, clock, tmp_path),
        pytest.raises(ZeroDivisionError),
        phases.phase("plan", "files"),
    ):
        raise ZeroDivisionError
    assert "plan: failed after" in file.getvalue()
    assert "done" not in file.getvalue()
    assert list(phases.seconds) == ["plan"]


def test_a_wait_is_told_of_once_it_lasts_and_with_the_words_of_then(tmp_path: Path) -> None:
    clock = Clock()
    notes, file = written(clock)
    missing = "a, b"
    with shown_on(notes, clock, tmp_path), telling(lambda: f"waiting for {missing}"):
        for _ in range(40):
            progress.board.look()
            clock.now_s += 1
            missing = "b"
    assert file.getvalue().splitlines() == [
        "  waiting for b (0:02)",
        "waiting for b (0:32)",
    ]


def test_a_short_wait_and_what_was_there_already_are_not_told_of(tmp_path: Path) -> None:
    clock = Clock()
    notes, file = written(clock)
    with shown_on(notes, clock, tmp_path):
        with telling(lambda: "waiting for worker-0"):
            progress.board.look()
        ToolchainProgress()("nomad", "ready", 0.0, "")
    assert file.getvalue() == ""


def test_a_resource_that_takes_long_is_told_of_with_what_its_command_says(tmp_path: Path) -> None:
    clock = Clock()
    notes, file = written(clock)
    with shown_on(notes, clock, tmp_path), progress.board.operations():
        for second in range(40):
            progress.board.operation("type gate", "gate", "creating", f"{second} of 40 answer")
            progress.board.look()
            clock.now_s += 1
        progress.board.changed("type gate", " +  type gate created (40s)")
    assert file.getvalue().splitlines() == [
        "gate creating (0:30) 30 of 40 answer",
        " +  type gate created (40s)",
    ]


def test_the_first_failure_is_told_of_and_what_it_ended_is_not(tmp_path: Path) -> None:
    clock = Clock()
    notes, file = written(clock)
    with shown_on(notes, clock, tmp_path):
        report = ToolchainProgress()
        for name in ("nomad", "consul"):
            report(name, "building", 0, "")
        report("nomad", "failed", 70, "no compiler")
        report("consul", "failed", 70, "cancelled")
        say("the end")
    assert file.getvalue().splitlines() == ["  nomad: failed after 1:10: no compiler", "the end"]


def test_what_fails_before_it_begins_says_why(tmp_path: Path) -> None:
    clock = Clock()
    notes, file = written(clock)
    with shown_on(notes, clock, tmp_path):
        ToolchainProgress()("archives", "failed", 2.0, "no answer from the vendors")
    assert file.getvalue() == "  archives: no answer from the vendors\n"
