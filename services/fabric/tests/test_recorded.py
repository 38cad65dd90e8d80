"""Outputs of public reports: their verdicts and reasons were written down before the parsers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from fabric.findings import worst
from fabric.readings.errors import ReadingError
from fabric.tools import OF_HOSTS, OF_PAIRS
from recordings import FOLDER, SET_ASIDE, Recording, recordings

ALL = list(recordings())
TOOLS = {**OF_HOSTS, **OF_PAIRS}


@pytest.mark.parametrize("recording", ALL, ids=lambda each: Path(each.file).stem)
def test_verdict_and_reason_are_those_that_a_person_gives(recording: Recording) -> None:
    findings = recording.findings()
    of_check = [each for each in findings if each.check == recording.check]
    reasons = [each.reason for each in of_check if each.verdict.value == recording.verdict]
    assert any(recording.reason in each for each in reasons), findings
    assert worst(findings).value == recording.verdict, findings


def test_there_are_enough_recordings_and_a_third_is_set_aside() -> None:
    aside = [each for each in ALL if each.file.startswith(f"{SET_ASIDE}/")]
    assert len(ALL) >= 30
    assert len(aside) * 3 >= len(ALL)


def test_every_file_has_its_source_and_date() -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("**/*.txt")}
    assert {each.file for each in ALL} == files
    assert all(each.source and each.date for each in ALL)


@pytest.mark.parametrize("recording", ALL, ids=lambda each: Path(each.file).stem)
def test_an_output_that_ends_early_is_a_reading_or_a_named_error(recording: Recording) -> None:
    lines = recording.text.splitlines(keepends=True)
    for end in range(len(lines)):
        with suppress(ReadingError):
            TOOLS[recording.tool].parse("".join(lines[:end]))


@pytest.mark.parametrize(
    "recording",
    [each for each in ALL if each.tool in OF_PAIRS],
    ids=lambda each: Path(each.file).stem,
)
def test_a_measurement_that_ends_before_its_figures_is_a_named_error(recording: Recording) -> None:
    lines = recording.text.splitlines(keepends=True)
    rows = [at for at, line in enumerate(lines) if line.strip()[:1] in "0123456789{"]
    for end in range(rows[0] if rows else len(lines)):
        with pytest.raises(ReadingError, match=recording.tool):
            TOOLS[recording.tool].parse("".join(lines[:end]))
