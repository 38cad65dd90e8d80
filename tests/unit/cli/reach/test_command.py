"""Which environments are kept within reach, and what the command says otherwise."""

from __future__ import annotations

import subprocess

import pytest
from typer.testing import CliRunner

from cli.app import app


@pytest.mark.usefixtures("copied")
def test_an_environment_of_this_machine_needs_no_reaching(runner: CliRunner) -> None:
    result = runner.invoke(app, ["reach", "-s", "dev"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "runs on this machine" in result.stderr
    assert "slipway env -s dev" in result.stderr


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    "command", [["reach"], ["status"], ["chat", "sim-a", "hello"], ["logs", "envoy"]], ids=" ".join
)
def test_hosts_whose_keys_are_not_known_are_named_with_what_to_do(
    runner: CliRunner, command: list[str]
) -> None:
    result = runner.invoke(app, [*command, "-s", "hosts"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "known_hosts has no public key of 10.77.0.11" in result.stderr
    assert "ssh-keyscan -t ed25519 10.77.0.11" in result.stderr


@pytest.mark.usefixtures("copied")
def test_the_exports_of_a_fleet_say_where_it_is_forwarded(runner: CliRunner) -> None:
    lines = runner.invoke(app, ["env", "-s", "hosts"]).stdout.splitlines()
    assert "export CONSUL_TLS_SERVER_NAME=server.hosts.consul" in lines
    assert any(line.startswith("export SLIPWAY_FORWARDS='{") for line in lines)


@pytest.mark.usefixtures("copied")
def test_the_exports_of_a_fleet_are_for_pulumi_and_say_what_brings_nomad_within_reach(
    runner: CliRunner,
) -> None:
    result = runner.invoke(app, ["env", "-s", "hosts"])
    assert "export NOMAD_ADDR" not in result.stdout
    assert "slipway reach -s hosts" in result.stderr
    assert "reach" not in result.stdout


@pytest.mark.usefixtures("copied")
def test_a_shell_keeps_nothing_of_a_fleet_that_dev_would_be_verified_by(runner: CliRunner) -> None:
    of_hosts, of_dev = (runner.invoke(app, ["env", "-s", name]).stdout for name in ("hosts", "dev"))
    script = f"{of_hosts}\n{of_dev}\n/usr/bin/env"
    done = subprocess.run(["/bin/sh", "-euc", script], capture_output=True, text=True, check=True)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "CONSUL_CACERT" in names
    assert not {"CONSUL_TLS_SERVER_NAME", "NOMAD_TLS_SERVER_NAME", "SLIPWAY_FORWARDS"} & names
