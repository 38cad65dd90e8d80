from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from slipway.cli import preview
from slipway.cli.app import app
from slipway.cli.environment import Environment
from slipway.cli.pulumi import Pulumi
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document
from tests.unit.cli.test_doors import put_plan
from tests.unit.cli.test_state import put_checkpoint

NO_MODELS = SimpleNamespace(models=())


@pytest.fixture
def previewed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of each `pulumi preview`; it finds no changes."""
    calls: list[list[str]] = []

    def note(_: Pulumi, arguments: list[str]) -> int:
        calls.append(arguments)
        return 255 if "--expect-no-changes" in arguments else 0

    monkeypatch.setattr(Pulumi, "preview", note)
    monkeypatch.setattr(preview, "load_inputs", lambda *_: None)
    monkeypatch.setattr(preview, "make_plan", lambda _: NO_MODELS)
    monkeypatch.setattr(preview.resolve, "tools", lambda *_: {})
    monkeypatch.setattr(preview, "prepare_plugins", lambda _: "registry-only")
    return calls


def put_state_of_a_cluster(environment: Environment) -> None:
    put_plan(environment.checkout, plan_document())
    put_checkpoint(environment, {"resources": [{"type": "nomad:index/job:Job"}]})


def test_a_stopped_environment_is_previewed_without_a_refresh_and_told_so(
    runner: CliRunner, environment: Environment, previewed: list[list[str]]
) -> None:
    put_state_of_a_cluster(environment)
    result = runner.invoke(app, ["preview"])
    assert result.exit_code == 0, result.output
    assert previewed == [["--refresh=false"]]
    assert "slipway start -s dev" in result.stderr
    assert not environment.scratch.exists()


def test_a_running_environment_is_refreshed(
    runner: CliRunner, environment: Environment, previewed: list[list[str]], serve: Serve
) -> None:
    put_state_of_a_cluster(environment)
    leader = {"GET /v1/status/leader": (200, b'"127.96.0.2:4647"')}
    serve(leader, address="127.96.0.2", port=4646)
    result = runner.invoke(app, ["preview", "--json", "--diff"])
    assert result.exit_code == 0, result.output
    assert previewed == [["--json", "--diff"]]
    assert "stopped" not in result.stderr


def test_a_refresh_that_was_asked_for_is_not_taken_back(
    runner: CliRunner, environment: Environment, previewed: list[list[str]]
) -> None:
    put_state_of_a_cluster(environment)
    runner.invoke(app, ["preview", "--refresh=true"])
    assert previewed == [["--refresh=true"]]


def test_the_failure_of_a_preview_is_exit_code_1(
    runner: CliRunner, environment: Environment, previewed: list[list[str]]
) -> None:
    put_checkpoint(environment, {})
    assert runner.invoke(app, ["preview", "--expect-no-changes"]).exit_code == 1
