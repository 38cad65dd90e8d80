"""The ssh-agent that holds the operator's key while hosts are reached."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.errors import CliError
from cli.machine.ssh_agent import SOCKET, agent_for
from slipway.plan.platform import SshPlan

needs_openssh = pytest.mark.skipif(
    shutil.which("ssh-agent") is None, reason="needs OpenSSH's client"
)


def plan(*keys: Path) -> SshPlan:
    return SshPlan(
        hosts={}, jump=None, keys=tuple(str(key) for key in keys), known_hosts="known_hosts"
    )


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@needs_openssh
def test_the_agent_holds_the_key_of_the_file_and_ends_with_the_block(key: Path) -> None:
    with agent_for(plan(key)) as variables:
        listed = subprocess.run(
            ["ssh-add", "-L"],
            check=True,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
        assert listed.stdout.split()[1] == key.with_suffix(".pub").read_text().split()[1]
        socket = Path(variables[SOCKET])
        assert socket.parent.stat().st_mode & 0o077 == 0
    assert not socket.exists()


@needs_openssh
def test_the_agent_holds_the_keys_of_all_files(key: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    with agent_for(plan(key, other)) as variables:
        listed = subprocess.run(
            ["ssh-add", "-L"],
            check=True,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
    public = [path.with_suffix(".pub").read_text().split()[1] for path in (key, other)]
    assert [line.split()[1] for line in listed.stdout.splitlines()] == public


@needs_openssh
def test_no_key_of_several_may_be_read_by_others(key: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(key.read_text())
    other.chmod(0o640)
    with pytest.raises(CliError, match=f"other users can read {other}"):
        agent_for(plan(key, other)).__enter__()


@needs_openssh
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o777])
def test_a_key_that_others_can_read_is_refused(key: Path, mode: int) -> None:
    key.chmod(mode)
    with pytest.raises(CliError, match=f"other users can read {key}") as refused:
        agent_for(plan(key)).__enter__()
    assert refused.value.exit_code == 2
    assert f"chmod 600 {key}" in refused.value.fix


@needs_openssh
def test_a_key_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="cannot be read: No such file"):
        agent_for(plan(tmp_path / "key")).__enter__()


@needs_openssh
def test_what_is_no_key_is_refused_with_what_ssh_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("not a key")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(CliError, match="cannot be used"):
        agent_for(plan(tmp_path / "key")).__enter__()


@needs_openssh
def test_without_a_key_file_it_is_the_users_own_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, "/run/agent")
    with agent_for(plan()) as variables:
        assert variables == {}
    monkeypatch.delenv(SOCKET)
    with pytest.raises(CliError, match="no ssh-agent holds a key"):
        agent_for(plan()).__enter__()


def test_without_openssh_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CliError, match="this machine has no ssh, ssh-agent, ssh-add") as refused:
        agent_for(plan()).__enter__()
    assert "apt install openssh-client" in refused.value.fix


def test_an_environment_without_hosts_over_ssh_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with agent_for(None) as variables:
        assert variables == {}
