from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.commands import diff
from cli.errors import CliError
from cli.pulumi.policy_report import policy_report as ask
from slipway.diff.digest import planned_resources
from slipway.diff.policies import PolicyReport, read_policy_report
from tests.unit.diff.digests import RECORDINGS, policy_report, recorded

NO_FINDINGS = PolicyReport(rules=3, findings=())
CHANGED = str(RECORDINGS / "model_changed.json")


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def printing(
    monkeypatch: pytest.MonkeyPatch, stdout: str, stderr: str = "", code: int = 0
) -> list[list[str]]:
    """`slipway preview` prints this; returns the command lines that were run."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, code, stdout=stdout, stderr=stderr)

    monkeypatch.setattr(diff.subprocess, "run", run)
    monkeypatch.setattr(diff, "policy_report", lambda *_: NO_FINDINGS)
    return commands


def test_a_recorded_preview_is_shown_as_a_comment(runner: CliRunner) -> None:
    result = runner.invoke(app, ["diff", CHANGED, "--commit", "0123abc"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("<!-- slipway-diff:dev -->\n### disruptive: `dev`\n")
    assert "commit `0123abc`" in result.stdout


def test_standard_input_is_read(runner: CliRunner) -> None:
    result = runner.invoke(app, ["diff", "-", "--json"], input=json.dumps(recorded("no_op")))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verdict"] == "no-op"


def test_bytes_on_standard_input_that_are_not_text_are_not_json(runner: CliRunner) -> None:
    result = runner.invoke(app, ["diff", "-"], input=b'{"a": "\xff')
    assert result.exit_code == 2
    assert "standard input is not JSON" in result.stderr


def test_without_a_file_the_preview_is_run(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = printing(monkeypatch, json.dumps(recorded("pool_removed")), stderr="asking\n")
    result = runner.invoke(app, ["diff", "-s", "dev"])
    assert result.exit_code == 0, result.output
    assert "### destructive: `dev`" in result.stdout
    assert "Policies: 3 rules; all passed." in result.stdout
    assert "asking" in result.stderr
    assert commands[0][4:] == ["preview", "-s", "dev", "--json", "--show-sames"]


def test_a_preview_that_ends_without_json_is_a_failed_one(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    printing(monkeypatch, "", stderr="slipway: models/a.yaml:3: no\n    fix: yes\n", code=2)
    result = runner.invoke(app, ["diff", "-s", "dev"])
    assert result.exit_code == 1
    assert "### failed: `dev`" in result.stdout
    assert "models/a.yaml:3: no" in result.stdout


def test_a_preview_that_fails_silently_is_a_failed_one(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    printing(monkeypatch, json.dumps(recorded("no_op")), code=255)
    result = runner.invoke(app, ["diff", "-s", "dev"])
    assert result.exit_code == 1
    assert "the preview ended with exit code 255" in result.stdout


def test_a_preview_that_a_policy_stopped_is_not_a_failed_one(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = {"severity": "error", "message": "error: preview failed\n"}
    document = {**recorded("model_changed"), "diagnostics": [stopped]}
    printing(monkeypatch, json.dumps(document), code=255)
    result = runner.invoke(app, ["diff", "-s", "dev"])
    assert "### failed: `dev`" in result.stdout  # the policies of this test find nothing

    blocked = read_policy_report(policy_report())
    monkeypatch.setattr(diff, "policy_report", lambda *_: blocked)
    result = runner.invoke(app, ["diff", "-s", "dev"])
    assert result.exit_code == 1
    assert "### disruptive: `dev`" in result.stdout
    assert "Blocked by 3 of the policies' findings" in result.stdout


def test_the_policies_of_this_checkout_judge_what_is_planned() -> None:
    resources = planned_resources(recorded("pool_removed"))
    names = {each["name"] for each in resources["resources"]}
    assert {"model-draft", "pool-cpu"} <= names
    assert "pool-batch" not in names
    job = {
        "type": "nomad:index/job:Job",
        "name": "latest",
        "inputs": {"jobspec": json.dumps({"Job": {"ID": "x", "TaskGroups": "no list"}})},
    }
    report = ask({"resources": [job]}, "prod", None)
    assert report.rules > 25
    assert report.count("could not be evaluated") > 0
    assert report.blocked


def test_policies_that_cannot_be_run_are_an_error_with_a_fix() -> None:
    with pytest.raises(CliError, match="could not be run"):
        ask({"steps": []}, "prod", None)


def test_the_messages_of_a_failed_preview_become_a_comment(
    runner: CliRunner, tmp_path: Path
) -> None:
    (tmp_path / "messages").write_text("\x1b[31mslipway: no\x1b[0m\n")
    result = runner.invoke(app, ["diff", "--failed", str(tmp_path / "messages"), "-s", "prod"])
    assert result.exit_code == 1
    assert "### failed: `prod`" in result.stdout
    assert "\nslipway: no\n" in result.stdout


def test_a_policy_that_blocks_is_exit_code_1_and_still_a_comment(
    runner: CliRunner, tmp_path: Path
) -> None:
    found = tmp_path / "policies.json"
    found.write_text(json.dumps(policy_report()))
    result = runner.invoke(app, ["diff", CHANGED, "--policies", str(found)])
    assert result.exit_code == 1
    assert "Blocked by 3 of the policies' findings" in result.stdout


def test_the_report_is_written_beside_the_comment(runner: CliRunner, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    result = runner.invoke(app, ["diff", CHANGED, "--report", str(report)])
    assert result.exit_code == 0, result.output
    assert report.read_text().splitlines()[:4] == result.stdout.splitlines()[:4]


def test_files_of_two_commits_are_compared(runner: CliRunner, tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    route = {"type": "consul:index/keys:Keys", "name": "r", "parent": "", "inputs": {}}
    before.write_text(json.dumps({"resources": []}))
    after.write_text(json.dumps({"resources": [route]}))
    result = runner.invoke(app, ["diff", str(after), "--before", str(before), "-s", "prod"])
    assert result.exit_code == 0, result.output
    assert "### safe: `prod`\n\n1 to create, 0 unchanged." in result.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("Previewing update (dev):", "is not JSON"),
        pytest.param("[" * 100_000, "is not JSON", id="100,000 brackets"),
        ("[]", "is not a JSON object"),
        ("{}", "neither steps nor diagnostics"),
        ('{"resources": []}', "--before BASE_FILE"),
    ],
)
def test_a_file_of_another_kind_is_wrong_input_with_a_fix(
    runner: CliRunner, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "file.json").write_text(content)
    result = runner.invoke(app, ["diff", str(tmp_path / "file.json")])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "fix: " in result.stderr
    assert result.stdout == ""


def test_a_base_without_a_file_to_compare_is_wrong_input(runner: CliRunner) -> None:
    result = runner.invoke(app, ["diff", "--before", "x.json"])
    assert result.exit_code == 2
    assert "--before needs the FILE" in result.stderr
