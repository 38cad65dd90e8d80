"""`slipway hosts`, and the commands about one host, in environments that never were up."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.environment import find
from cli.lifecycle.registry import lifecycle_of
from slipway.inputs import load_inputs
from stacks.planning import make_plan
from tests.unit.cli.hosts.test_document import SCHEMA


def test_hosts_of_this_machine_are_shown_although_nothing_runs(
    runner: CliRunner, copied: Path
) -> None:
    result = runner.invoke(app, ["hosts", "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert [row["name"] for row in document["hosts"]] == ["server-0", "cpu-0", "cpu-1", "edge-0"]
    assert set(document["unreachable"]) == {"consul", "nomad"}
    assert all(row["not_reached"] is None for row in document["hosts"])
    shown = runner.invoke(app, ["hosts"]).stdout
    assert "nomad does not answer" in shown
    assert not (copied / ".slipway").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["doctor", "--host", "cpu-0"], "processes of this machine"),
        (["forget", "cpu-0", "--yes"], "processes of this machine"),
        (["admit", "cpu-0"], "processes of this machine"),
        (["reach"], "every program here reaches it"),
        (["logs", "cpu-0", "consul"], "nothing of cpu-0 has run on this machine yet"),
        (["logs", "cpu-9", "consul"], 'has no host "cpu-9"'),
        (["logs", "cpu-0", "consul", "--replica", "1"], "leave out --replica"),
        (["logs", "cpu-0", "consul", "--stderr"], "leave out --stderr"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_there_is_refused(
    runner: CliRunner, copied: Path, command: list[str], said: str
) -> None:
    result = runner.invoke(app, command)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert "fix: " in result.stderr
    assert not (copied / ".slipway").exists()


def test_the_log_of_an_agent_of_this_machine_is_its_file(
    runner: CliRunner, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = copied / ".slipway/dev/logs"
    logs.mkdir(parents=True)
    (logs / "cpu-0-nomad.log").write_text("one\ntwo\nthree\n")
    assert runner.invoke(app, ["logs", "cpu-0", "nomad"]).exit_code == 0
    assert capfd.readouterr().out == "one\ntwo\nthree\n"
    assert runner.invoke(app, ["logs", "cpu-0", "nomad", "-n", "2"]).exit_code == 0
    assert capfd.readouterr().out == "two\nthree\n"
    refused = runner.invoke(app, ["logs", "cpu-0", "consul"])
    assert "use one of: nomad" in refused.stderr


def test_a_host_whose_key_is_not_known_is_told_how_to_make_it_known(
    runner: CliRunner, copied: Path
) -> None:
    (copied / "known_hosts").unlink(missing_ok=True)
    result = runner.invoke(app, ["doctor", "-s", "hosts", "--host", "worker-0", "--json"])
    assert result.exit_code == 1, result.stderr
    (check,) = json.loads(result.stdout)
    assert (check["name"], check["state"]) == ("host key", "fail")
    assert "known_hosts has no public key of 10.77.0.21" in check["detail"]
    assert check["fix"].startswith("ssh-keyscan -t ed25519 10.77.0.21 >> known_hosts")


def test_without_the_operators_key_every_host_says_that_it_cannot_be_asked(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(copied.parent))
    plan = make_plan(load_inputs(copied, "hosts"))
    hosts = lifecycle_of(find("hosts")).hosts
    assert hosts is not None
    facts = hosts.facts(plan)
    assert set(facts) == {"server-0", "worker-0", "edge-0"}
    assert all("ssh.key: " in str(reason) for reason in facts.values())


def test_without_the_operators_key_hosts_are_shown_with_the_reason(
    runner: CliRunner, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(copied.parent))
    result = runner.invoke(app, ["hosts", "-s", "hosts", "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert [row["name"] for row in document["hosts"]] == ["server-0", "worker-0", "edge-0"]
    assert set(document["unreachable"]) == {"consul", "nomad"}
    assert all(str(copied.parent) in row["not_reached"]["reason"] for row in document["hosts"])
    shown = " ".join(runner.invoke(app, ["hosts", "-s", "hosts"]).stdout.split())
    assert "cannot be read: No such file or directory fix: name a private key" in shown
