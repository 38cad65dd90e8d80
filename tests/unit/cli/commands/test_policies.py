"""`slipway policies` on the environments of this checkout."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.commands import policies

offline_preview = cache(policies.offline_preview)


@pytest.fixture(autouse=True)
def no_environment_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """This interpreter has everything that the rules need. An environment is previewed once."""
    monkeypatch.setattr(policies, "offline_preview", offline_preview)
    monkeypatch.setattr(policies, "make_policy_environment", lambda _: Path(sys.prefix))
    monkeypatch.setattr(policies, "usd_per_hour_before", lambda _: 0.0)


def test_dev_keeps_every_rule(runner: CliRunner, capfd: pytest.CaptureFixture[str]) -> None:
    result = runner.invoke(app, ["policies"])
    assert result.exit_code == 0, capfd.readouterr()
    assert "passed: " in capfd.readouterr().out


@pytest.mark.parametrize(
    ("name", "skipped"), [("aws", "change-over-budget"), ("metal", "unprotected")]
)
def test_a_fleet_is_judged_by_its_plan_and_rules_that_need_more_are_named(
    runner: CliRunner, capfd: pytest.CaptureFixture[str], name: str, skipped: str
) -> None:
    """One that is built by its resources, another one by its plan."""
    result = runner.invoke(app, ["policies", "-s", name, "--json"])
    report = json.loads(capfd.readouterr().out)
    assert result.exit_code == 0, report["findings"]
    assert not report["blocked"]
    assert report["environment"] == name
    assert report["stage"] == "production"
    assert report["counts"]["could_not_be_evaluated"] == 0
    assert report["skipped_rules"] == [skipped]


def test_a_fleet_that_is_built_is_not_judged_by_a_cost_that_only_its_backend_knows(
    runner: CliRunner, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "target_of", lambda _: "metal")
    result = runner.invoke(app, ["policies", "--json"])
    report = json.loads(capfd.readouterr().out)
    assert result.exit_code == 0, report["findings"]
    assert report["skipped_rules"] == ["change-over-budget"]


def test_an_environment_that_is_not_there_is_wrong_input(runner: CliRunner) -> None:
    assert runner.invoke(app, ["policies", "-s", "nowhere"]).exit_code == 2
