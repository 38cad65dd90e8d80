from __future__ import annotations

import re
import threading

import pytest

from cli import progress as progress_module
from cli.console import say
from cli.progress import Phases, ToolchainProgress, clock, telling
from tests.waiting import HANG_S


def test_phases_keep_their_times_also_when_they_fail() -> None:
    phases = Phases()
    with phases.phase("checks", "this machine"):
        pass
    with pytest.raises(ZeroDivisionError), phases.phase("plan", "files"):
        raise ZeroDivisionError
    assert list(phases.seconds) == ["checks", "plan"]
    assert all(seconds >= 0 for seconds in phases.seconds.values())


def test_a_failed_phase_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), Phases().phase("plan", "files"):
        raise ZeroDivisionError
    assert "done" not in capsys.readouterr().err


def test_a_phase_that_says_nothing_says_that_it_is_still_running(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "SILENCE_S", 0.05)
    told = threading.Event()
    monkeypatch.setattr(
        progress_module,
        "say",
        lambda text, **_: (say(text), "still running" in text and told.set()),
    )
    with Phases().phase("probe", "both protocols"):
        assert told.wait(HANG_S)
    lines = capsys.readouterr().err.splitlines()
    assert any(re.fullmatch(r"  probe: still running \(\d+ s\)", line) for line in lines)


def test_a_phase_that_is_told_of_needs_no_other_sign(capsys: pytest.CaptureFixture[str]) -> None:
    with Phases().phase("probe", "both protocols"):
        pass
    assert "still running" not in capsys.readouterr().err


def test_a_tool_is_told_of_at_each_new_state_and_while_one_lasts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = ToolchainProgress()
    for state, elapsed_s in (
        ("building", 0),
        ("building", 5),
        ("building", 11),
        ("building", 15),
        ("ready", 16),
    ):
        progress("nomad", state, elapsed_s, "")
    lines = capsys.readouterr().err.splitlines()
    assert [line.strip() for line in lines] == [
        "nomad: building (0 s)",
        "nomad: building (11 s)",
        "nomad: ready (16 s)",
    ]


def test_a_wait_is_told_of_only_when_it_lasts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "MOMENT_S", HANG_S)
    with telling(lambda: "waiting for worker-0"):
        pass
    assert capsys.readouterr().err == ""
    told = threading.Event()
    monkeypatch.setattr(progress_module, "MOMENT_S", 0.01)
    monkeypatch.setattr(progress_module, "say", lambda line: (say(line), told.set()))
    with telling(lambda: "waiting for worker-0"):
        assert told.wait(HANG_S)
    assert re.match(r"waiting for worker-0 \(\d+ s\)\n", capsys.readouterr().err)


def test_what_was_there_already_is_not_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    ToolchainProgress()("nomad", "ready", 0.0, "")
    assert capsys.readouterr().err == ""


def test_a_clock_reads_minutes_and_seconds() -> None:
    assert [clock(0.4).strip(), clock(67).strip(), clock(3605).strip()] == ["0:00", "1:07", "60:05"]
