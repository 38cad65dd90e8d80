from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.commands import preview
from cli.environment import Environment
from cli.lifecycle.local import preview as local_preview
from cli.pulumi.locks import exclusive
from cli.pulumi.process import Pulumi
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import put_plan
from tests.unit.cli.pulumi.test_state import put_checkpoint
from tests.unit.plan.samples import ROOT

WITHOUT_TLS = SimpleNamespace(certificate=None)  # of a plan's inputs
NO_MODELS = SimpleNamespace(models=())
MARKED = {"type": "nomad:index/job:Job", "id": "model-a-old", "delete": True}


@pytest.fixture
def previewed(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of each `pulumi preview`; it finds no changes."""
    calls: list[list[str]] = []

    def note(_: Pulumi, arguments: list[str]) -> int:
        calls.append(arguments)
        return 255 if "--expect-no-changes" in arguments else 0

    monkeypatch.setattr(Pulumi, "preview", note)
    shutil.rmtree(checkout / "stacks")
    for part in ("src", "components", "stacks"):
        (checkout / part).symlink_to(ROOT / part)
    monkeypatch.setattr(preview, "load_inputs", lambda *_: WITHOUT_TLS)
    monkeypatch.setattr(preview, "make_plan", lambda _: NO_MODELS)
    monkeypatch.setattr(preview.resolve, "tools", lambda *_: {})
    monkeypatch.setattr(preview, "prepare_plugins", lambda _: "registry-only")
    monkeypatch.setattr(preview, "policy_arguments", lambda *_: [])
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


@pytest.mark.parametrize(("arguments", "started"), [([], 2), (["--offline"], 0)])
def test_the_servers_of_plugins_and_policies_start_with_a_preview_that_runs_pulumi(
    runner: CliRunner,
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    previewed: object,
    arguments: list[str],
    started: int,
) -> None:
    put_state_of_a_cluster(environment)
    servers = list[str]()
    for name in ("fork_plugins_and_program", "start_policy_server"):
        monkeypatch.setattr(preview, name, lambda of: servers.append(of.name))
    monkeypatch.setattr(preview, "_show_offline", lambda *_, **__: None)
    assert runner.invoke(app, ["preview", "-s", environment.name, *arguments]).exit_code == 0
    assert servers == [environment.name] * started


def test_a_running_environment_is_refreshed(
    runner: CliRunner, environment: Environment, previewed: list[list[str]], serve: Serve
) -> None:
    put_state_of_a_cluster(environment)
    leader = {"GET /v1/status/leader": (200, b'"127.96.0.2:4647"')}
    serve(leader, address=f"{NETWORK}.2", port=4646)
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


def test_a_preview_leaves_the_state_as_it_is_and_says_what_up_keeps(
    runner: CliRunner,
    environment: Environment,
    previewed: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the job that serves would belong to nobody when the files change once more."""
    model = SimpleNamespace(stable=SimpleNamespace(job_id="model-a-old"))
    monkeypatch.setattr(preview, "make_plan", lambda _: SimpleNamespace(models=(model,)))
    wanted: list[tuple[object, ...]] = []
    monkeypatch.setattr(local_preview, "prepare_stack", lambda _, *jobs: wanted.append(jobs))
    put_checkpoint(environment, {"resources": [MARKED, MARKED | {"id": "model-a-older"}]})
    result = runner.invoke(app, ["preview", "--refresh=false"])
    assert result.exit_code == 0, result.output
    assert wanted == [()]
    assert "up keeps these jobs, shown as deleted here: model-a-old\n" in result.stderr


def test_a_preview_beside_a_command_that_changes_the_environment_says_which_one_it_is(
    runner: CliRunner, environment: Environment, previewed: list[list[str]]
) -> None:
    put_checkpoint(environment, {})
    with exclusive(environment):
        result = runner.invoke(app, ["preview"])
    assert result.exit_code == 1
    assert f"pid {os.getpid()}" in result.stderr
    assert previewed == []


def test_a_preview_at_work_hinders_nobody(
    runner: CliRunner, environment: Environment, monkeypatch: pytest.MonkeyPatch, previewed: object
) -> None:
    def free(_: Pulumi, __: list[str]) -> int:
        with exclusive(environment):
            return 0

    monkeypatch.setattr(Pulumi, "preview", free)
    put_checkpoint(environment, {})
    assert runner.invoke(app, ["preview"]).exit_code == 0


# Offline: with a program of the test's own

PROGRAM = """
import json, os
import pulumi, pulumi_command as command
from pulumi.runtime.config import get_config_env

pulumi.log.warn("on the way")
command.local.Command(
    "one",
    create=" ".join(sorted(os.environ)),
    stdin=pulumi.Config("aws").require_secret("key"),
    environment={"CONFIGURATION": json.dumps(get_config_env(), sort_keys=True)},
)
"""
STACK_FILE = """
encryptionsalt: v1:x
config:
  slipway:target: dev
  slipway:servers: 1
  slipway:pools: {edge: {nodes: 1, x: true}}
  slipway:deep: {list: [{token: {secure: "v1:canary"}}]}
  aws:key: {secure: "v1:canary"}
"""


@pytest.fixture
def offline(previewed: list[list[str]], checkout: Path) -> Path:
    """The checkout with a stack file that has secrets, and a program that shows what it gets."""
    (checkout / "__main__.py").write_text(PROGRAM)
    (checkout / "Pulumi.dev.yaml").write_text(STACK_FILE)
    return checkout


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_symlink()}


def test_an_offline_preview_runs_the_program_and_writes_nothing(
    runner: CliRunner,
    offline: Path,
    previewed: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program gets the configuration as Pulumi hands it over, no secret, and nothing of the
    caller's environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    before = files(offline.parent)
    result = runner.invoke(app, ["preview", "--offline", "--json"])
    assert result.exit_code == 0, result.output
    assert "canary" not in result.output
    (one,) = json.loads(result.stdout)["resources"]
    assert (one["type"], one["name"], one["parent"]) == ("command:local:Command", "one", "")
    assert one["inputs"]["stdin"] == "[secret]"
    assert json.loads(one["inputs"]["environment"]["CONFIGURATION"]) == {
        "slipway:target": "dev",
        "slipway:servers": "1",
        "slipway:pools": '{"edge": {"nodes": 1, "x": true}}',
        "slipway:deep": '{"list": [{"token": "[secret]"}]}',
        "aws:key": "[secret]",
    }
    variables = set(one["inputs"]["create"].split())
    assert {"HOME", "PATH", "PYTHONPATH", "PULUMI_CONFIG"} <= variables
    assert variables <= {"HOME", "PATH", "PYTHONPATH", "PULUMI_CONFIG", "LC_CTYPE"}
    assert previewed == []
    assert files(offline.parent) == before


def test_without_json_an_offline_preview_is_a_tree(runner: CliRunner, offline: Path) -> None:
    result = runner.invoke(app, ["preview", "--offline"])
    assert result.exit_code == 0, result.output
    assert "dev: 1 resources, 0 documents" in result.stdout
    assert "one  command:local:Command" in result.stdout
    assert 'stdin: "[secret]"' in result.stdout


@pytest.mark.parametrize(
    ("program", "exit_code"), [("import pulumi; raise pulumi.RunError('no')", 2), ("1 / 0", 1)]
)
def test_a_program_that_fails_offline_fails_the_command(
    runner: CliRunner, offline: Path, program: str, exit_code: int
) -> None:
    (offline / "__main__.py").write_text(program)
    result = runner.invoke(app, ["preview", "--offline", "--json"])
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert "did not finish" in result.stderr


def test_arguments_of_pulumi_are_refused_offline(runner: CliRunner, offline: Path) -> None:
    result = runner.invoke(app, ["preview", "--offline", "--diff", "--target=x"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave out --diff --target=x" in result.stderr
