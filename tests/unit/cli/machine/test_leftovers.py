"""The leftovers of killed replicas are removed by their own service."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.environment import Environment
from cli.machine.leftovers import PROGRAM, clear_leftovers


def put_program(checkout: Path, text: str) -> Path:
    path = checkout / PROGRAM
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"import os, pathlib\n{text}\n")
    return path


def test_the_services_own_program_gets_the_folder_of_the_replicas(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "pathlib.Path(__file__).with_suffix('.told').write_text(os.environ['SLIPWAY_SCRATCH'])"
    program = put_program(environment.checkout, note)
    clear_leftovers(environment)
    assert program.with_suffix(".told").read_text() == str(environment.scratch)
    assert capsys.readouterr().err == ""


def test_a_failure_to_clear_is_reported_and_stops_nothing(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    put_program(environment.checkout, "raise OSError('no such luck')")
    clear_leftovers(environment)
    assert "OSError: no such luck" in capsys.readouterr().err
