"""`slipway doctor` checks the plan that `slipway up` would build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.lifecycle.local.lifecycle import LocalLifecycle
from slipway.inputs import load_inputs
from stacks.planning import make_plan


def test_the_checked_plan_has_the_job_ids_by_which_running_replicas_are_known(
    runner: CliRunner, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the memory check takes replicas that run already for new ones."""
    checked: list[Any] = []
    monkeypatch.setattr(LocalLifecycle, "machine_checks", lambda _: [])
    monkeypatch.setattr(LocalLifecycle, "plan_checks", lambda _, plan: checked.append(plan) or [])
    assert runner.invoke(app, ["doctor"]).exit_code == 0
    assert checked == [make_plan(load_inputs(copied, "dev"))]
