"""The ssh-agent that holds the operator's private keys while hosts are reached.

Neither Pulumi's state nor a command line has the keys: Pulumi's providers and ssh ask the agent.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cli.errors import WRONG_INPUT, CliError
from slipway.plan.platform import SshPlan

SOCKET = "SSH_AUTH_SOCK"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NoAgentError(CliError):
    """No agent can hold the operator's keys, so no host can be reached from here."""


@contextmanager
def agent_for(ssh: SshPlan | None) -> Iterator[Mapping[str, str]]:
    """The variables with which programs find an agent; it ends with the block.

    Without key files it is the user's own agent. NoAgentError if there is none, or if a file cannot
    be used.
    """
    if ssh is None:
        yield {}
        return
    must_be_installed()
    if not ssh.keys:
        if not os.environ.get(SOCKET):
            raise NoAgentError(
                "no ssh-agent holds a key for the hosts",
                fix='eval "$(ssh-agent)" && ssh-add, or name a private key in slipway:ssh.key',
                exit_code=WRONG_INPUT,
            )
        yield {}
        return
    keys = [Path(key).expanduser() for key in ssh.keys]
    for key in keys:
        must_be_private(key)
    with tempfile.TemporaryDirectory(prefix="slipway-agent-") as folder:
        path = Path(folder) / "agent"
        with _agent_at(path):
            for key in keys:
                _add(key, path)
            yield {SOCKET: str(path)}


@contextmanager
def _agent_at(path: Path) -> Iterator[None]:
    """An agent that listens at `path`.

    It is the child of a command that ends with this process, however that ends: an agent looks for
    its parent every ten seconds, and no signal can tell it sooner, because it is set-group-ID.
    """
    with subprocess.Popen(
        ["ssh-agent", "-a", str(path), "sh", "-c", 'echo "$SSH_AGENT_PID" && exec cat'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the command, which may need keys until it ends
    ) as parent:
        assert parent.stdout is not None  # noqa: S101
        agent = parent.stdout.readline()  # it listens
        try:
            yield
        finally:
            if agent:
                with suppress(ProcessLookupError):
                    os.kill(int(agent), signal.SIGTERM)


def must_be_installed() -> None:
    missing = [name for name in ("ssh", "ssh-agent", "ssh-add") if shutil.which(name) is None]
    if missing:
        raise NoAgentError(
            f"this machine has no {', '.join(missing)}, with which hosts are reached",
            fix="install OpenSSH's client (apt install openssh-client)",
        )


def must_be_private(key: Path) -> None:
    """NoAgentError if the file does not exist, or if others can read it."""
    try:
        mode = key.stat().st_mode
    except OSError as error:
        raise NoAgentError(
            f"ssh.key: {key} cannot be read: {error.strerror}",
            fix="name a private key of this machine",
            exit_code=WRONG_INPUT,
        ) from None
    if mode & _OTHERS:
        raise NoAgentError(
            f"ssh.key: other users can read {key}",
            fix=f"chmod 600 {key}; if it is not yours alone, make another one",
            exit_code=WRONG_INPUT,
        )


def _add(key: Path, agent: Path) -> None:
    done = subprocess.run(
        ["ssh-add", "-q", str(key)],
        env={**os.environ, SOCKET: str(agent), "SSH_ASKPASS_REQUIRE": "never"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoAgentError(
            f"ssh.key: {key} cannot be used: {done.stderr.strip()}",
            fix="if it has a passphrase, ssh-add it to your own agent and leave slipway:ssh.key"
            " out",
            exit_code=WRONG_INPUT,
        )
