"""What a person sees on a terminal, by a real pseudo-terminal and the screen of an emulator."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli import progress
from cli.live.layout import Size
from tests.unit.cli.live.preparation import SECONDS, TOOLS, WARNING, prepare
from tests.unit.cli.live.terminal import COLUMNS, LINES, Clock, shown_on, terminal
from tests.waiting import HANG_S, until

EVERY_S = 20
ROOT = Path(__file__).parents[4]
ENDED = [
    "  0:00  plan: done in 0.0 s",
    WARNING,
    f" 16:18  tools: done in {SECONDS}.0 s",
    " 16:28  weights: done in 10.0 s",
]


@pytest.mark.parametrize(
    "size",
    [
        Size(columns=COLUMNS, lines=LINES),
        Size(columns=40, lines=LINES),
        Size(columns=COLUMNS, lines=5),
    ],
    ids=["usual", "narrow", "low"],
)
def test_a_long_preparation_is_one_block_and_leaves_a_line_of_each_phase(
    size: Size, tmp_path: Path
) -> None:
    clock, seen = Clock(), set[str]()
    with terminal(size.columns, size.lines) as screen:

        def look() -> None:
            lines = screen.shown
            blocks = [line for line in lines if re.search(r"\d  (tools|weights)\b.* ready", line)]
            assert len(blocks) <= 1
            seen.update(word for line in lines for word in line.split())

        with shown_on(screen.notes(clock), clock, tmp_path):
            prepare(clock, look, every_s=EVERY_S)
        wrapped = "".join(screen.shown) if size.columns < len(WARNING) else screen.shown
        assert wrapped == ("".join(ENDED) if isinstance(wrapped, str) else ENDED)
    assert {"building", "installing"} <= seen
    assert size.lines < LINES or set(TOOLS) - {"node", "xds"} <= seen


def test_the_block_says_what_each_tool_does_how_long_and_how_long_it_takes(tmp_path: Path) -> None:
    clock, at = Clock(), dict[int, list[str]]()
    with terminal() as screen, shown_on(screen.notes(clock), clock, tmp_path):
        started_s = clock.now_s

        def look() -> None:
            if (second := round(clock.now_s - started_s)) in (60, SECONDS + 5):
                at[second] = screen.shown

        prepare(clock, look, every_s=EVERY_S)
    head, *tools = at[60][-7:]
    # 978 s of builds by the shipped table, of which a minute is over
    assert head == (
        "  1:00  tools: binaries and Python environments, in parallel"
        " (1:00, 3 of 9 ready, ~15:18 left)"
    )
    assert re.fullmatch(r" {8}vllm +installing +1:00 of ~1:51  ━+╸?─+", tools[0])
    assert re.fullmatch(r" {8}nomad +building +1:00 of ~4:25  ━+╸?─+", tools[1])
    assert [line.split()[:2] for line in tools[2:]] == [
        [name, "queued"] for name in ("consul", "pulumi", "prometheus", "nomad-autoscaler")
    ]
    downloads = at[SECONDS + 5][-1]
    assert re.fullmatch(r" {8}weights of smollm2 +downloading +50 of 100 MB +━{12}─{12}", downloads)


def test_what_took_long_the_last_time_is_expected_to_take_as_long(tmp_path: Path) -> None:
    clock = Clock()
    with terminal() as screen, shown_on(screen.notes(clock), clock, tmp_path):
        prepare(clock, every_s=SECONDS)
        seen = list[str]()
        prepare(clock, lambda: seen.extend(screen.shown), every_s=SECONDS // 10)
    assert any(re.search(r"vllm +installing .* of ~2:10", line) for line in seen)


def test_a_failure_stays_readable_above_the_block(tmp_path: Path) -> None:
    clock = Clock()
    with terminal() as screen, shown_on(screen.notes(clock), clock, tmp_path):
        report = progress.ToolchainProgress()
        for name in ("nomad", "consul"):
            report(name, "building", 0, "")
        clock.now_s += 2
        progress.board.look()
        assert len(screen.shown) == 2
        report("nomad", "failed", 2, "no compiler")
        progress.board.look()
        said, consul = screen.shown
        assert said == "  nomad: failed after 0:02: no compiler"
        assert "consul" in consul
        report("consul", "failed", 2, "cancelled")
        assert screen.shown == [said]


INTERRUPTED = """
import time
from cli import progress
from cli.live import block
block.APPEARS_S = 0
with progress.Phases().phase("tools", "in parallel"):
    progress.ToolchainProgress()("nomad", "building", 0, "")
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_by_a_signal_leaves_the_terminal_whole(
    number: signal.Signals, tmp_path: Path
) -> None:
    variables = {
        **os.environ,
        "TERM": "xterm",
        "PYTHONPATH": f"{ROOT}/src:{ROOT}",
        "SLIPWAY_CACHE": str(tmp_path),
    }
    with terminal() as screen:
        with subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED],
            env=variables,
            stderr=screen.device,
            start_new_session=True,
        ) as command:
            until(lambda: "nomad" in "".join(screen.screen.text))
            command.send_signal(number)
            command.wait(HANG_S)
        shown = screen.shown
        assert not screen.screen.cursor.hidden
    if number == signal.SIGINT:  # the others end Python at once
        assert re.fullmatch(r"  0:0\d  tools: interrupted after \d+\.\d s", shown[0])
        assert not any("nomad" in line for line in shown)
        assert shown[-1].startswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    ("variables", "redraws", "colours"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"CI": "true"}, False, False),
    ],
    ids=str,
)
def test_a_block_is_drawn_where_a_person_can_watch_it(
    variables: dict[str, str],
    redraws: bool,
    colours: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    clock = Clock()
    with terminal() as screen:
        notes = screen.notes(clock, **variables)
        with shown_on(notes, clock, tmp_path):
            prepare(clock, every_s=60)
        shown = screen.shown
        assert notes.redraws is redraws
        assert (b"\x1b[2K" in screen.received) is redraws
        assert (b"\x1b[32m" in screen.received) is (colours or "CI" in variables)
    assert (shown == ENDED) is redraws


def test_a_file_gets_no_block_even_where_it_gets_colours(tmp_path: Path) -> None:
    from cli.console import Notes  # noqa: PLC0415

    with (tmp_path / "log").open("w") as file:
        assert not Notes(file=file, _environ={"FORCE_COLOR": "1", "TERM": "xterm"}).redraws


def test_no_command_imports_what_only_a_block_needs() -> None:
    code = "import sys, cli.app, cli.commands.up; print('rich.live' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
