"""Snapshots and dev, which takes none."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import app


@pytest.mark.parametrize(
    "command", [["snapshots"], ["snapshot"], ["restore"], ["restore", "--yes", "--force"]]
)
def test_dev_has_no_snapshots_and_says_what_to_do_instead(
    runner: CliRunner, whole_checkout: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr("cli.environment.CHECKOUT", whole_checkout)
    result = runner.invoke(app, [*command, "-s", "dev"])
    assert result.exit_code == 2
    assert '"dev" has no snapshots' in result.stderr
    assert "slipway start -s dev" in result.stderr
