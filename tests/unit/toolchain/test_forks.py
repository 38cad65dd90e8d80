"""Plugins as forks of one server. This process takes Pulumi's part: it is the clients' parent."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import HANG_S
from toolchain.forks import client as fork_client

CHECKOUT = Path(__file__).resolve().parents[3]
MAIN = CHECKOUT / "toolchain" / "plugins" / "main.py"
STAND_IN = "tests.unit.toolchain.plugin_stand_in"
COMMAND = [sys.executable, "-S", str(MAIN), STAND_IN]


class Client:
    """What Pulumi starts, and what its plugin has shown."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.shown: dict[str, Any] = json.loads(process.stdout.readline())
        self.plugin = psutil.Process(self.shown["pid"])


@contextmanager
def started(*arguments: str, **options: Any) -> Iterator[Client]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True, **options
    ) as process:
        try:
            yield Client(process)
        finally:
            process.kill()


@pytest.fixture
def client() -> Iterator[Client]:
    with started() as client:
        yield client


def test_a_plugin_has_its_clients_arguments_folder_variables_and_outputs(tmp_path: Path) -> None:
    variables = {**os.environ, "GREETING": "two words=\n\udcff"}
    with started("a b", "", cwd=tmp_path, env=variables) as client:
        assert client.shown["arguments"] == ["a b", ""]
        assert client.shown["folder"] == str(tmp_path)
        assert client.shown["greeting"] == variables["GREETING"]
        _out, errors = client.process.communicate(timeout=HANG_S)
        assert errors == "ended\n"
        assert client.process.returncode == 7


def test_the_plugins_of_one_pulumi_are_forks_of_one_server_and_share_nothing_open() -> None:
    with started() as first, started() as second, started() as third:
        pids = {client.shown["pid"] for client in (first, second, third)}
        pids |= {client.process.pid for client in (first, second, third)}
        assert len(pids) == 6
        assert first.shown["server"] == second.shown["server"] == third.shown["server"]
        assert third.shown["open"] == first.shown["open"]
        first.process.communicate(timeout=HANG_S)
        assert second.plugin.is_running()
        assert third.plugin.is_running()


def test_a_plugin_ends_with_the_pipe_that_pulumi_holds(client: Client) -> None:
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(HANG_S) == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_plugin_ends_in_order_when_its_client_is_told_to(
    client: Client, number: signal.Signals
) -> None:
    client.process.send_signal(number)
    assert client.process.wait(HANG_S) == 7


def test_a_plugin_ends_when_its_client_is_killed(client: Client) -> None:
    client.process.kill()
    client.plugin.wait(HANG_S)


def test_a_client_ends_when_its_plugin_is_killed(client: Client) -> None:
    client.plugin.kill()
    assert client.process.wait(HANG_S) == -signal.SIGKILL


def as_pulumi(script: str) -> str:
    """What a process prints that is a Pulumi with a server of its own."""
    prelude = f"import json, psutil, subprocess\nCOMMAND, PIPE = {COMMAND!r}, subprocess.PIPE\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + script], capture_output=True, text=True, check=True
    ).stdout


def must_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        # An end is seen at once, even where nobody collects what orphans leave.
        assert select.select([process], [], [], HANG_S)[0]
        os.close(process)


def test_a_plugin_and_its_client_end_with_the_server(client: Client) -> None:
    os.kill(client.shown["server"], signal.SIGKILL)
    _out, errors = client.process.communicate(timeout=HANG_S)
    assert "from which this one was forked has ended" in errors
    assert client.process.returncode == 1
    client.plugin.wait(HANG_S)


def test_the_server_ends_with_pulumi() -> None:
    shown = as_pulumi("subprocess.run(COMMAND, input='')")
    must_end(json.loads(shown)["server"])


SLIPWAY = f"""
import atexit, os, psutil, subprocess, sys, time
from pathlib import Path
from cli.pulumi import plugins
from toolchain.forks.server import PLUGIN_MODULES
marker = open(os.devnull)
atexit.register(print, "the command ends", flush=True)
print("planned")
plugins.fork_into_server("pulumi", *PLUGIN_MODULES)
(server,) = psutil.Process().children()
def listens():
    lines = open("/proc/net/unix").read().splitlines()
    ours = [line.split() for line in lines if f"-{{os.getpid()}}-" in line]
    return any(flags == "00010000" for _, _, _, flags, *_ in ours)
while not listens():
    time.sleep(0.01)
pulumi = "import subprocess; subprocess.run({COMMAND!r}, input='')"
variables = plugins.with_plugin_variables(os.environ, "registry-only")
subprocess.run([sys.executable, "-c", pulumi], env=variables)
print(server.pid)
"""


def test_plugins_are_forks_of_the_server_of_the_command_that_runs_pulumi(tmp_path: Path) -> None:
    """The server of a command that has planned already, and ends with it."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", SLIPWAY],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT / 'src'}{os.pathsep}{CHECKOUT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    # What the command has open and has not written yet is not its server's.
    planned, plugin, server, end = done.stdout.splitlines()
    assert (planned, end) == ("planned", "the command ends")
    assert json.loads(plugin)["server"] == int(server)
    of_pulumi = json.loads(as_pulumi("subprocess.run(COMMAND, input='')"))
    assert json.loads(plugin)["open"] == of_pulumi["open"]
    must_end(int(server))


def test_a_command_has_one_server() -> None:
    """The other ends at once, and the first with the command."""
    with subprocess.Popen(["sleep", "infinity"]) as owner:
        command = [sys.executable, "-m", "toolchain.forks.server", str(owner.pid), "json"]
        servers = [subprocess.Popen(command, cwd=CHECKOUT) for _ in range(2)]
        ends = {os.pidfd_open(server.pid): server for server in servers}
        ended = select.select(ends, [], [], HANG_S)[0]
        assert len(ended) == 1
        owner.kill()
        for descriptor, server in ends.items():
            assert server.wait(HANG_S) == 0
            os.close(descriptor)


def test_an_interpreter_has_a_server_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two virtual environments of one Python, which link to the same file."""
    ours = fork_client.address_of(1)
    other = tmp_path / "python"
    other.symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(other))
    assert fork_client.address_of(1) != ours


@pytest.mark.parametrize("named", ["", "no number", "1"])
def test_a_command_without_a_server_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv(fork_client.COMMAND, named)
    assert fork_client.server_of_command() is None


@pytest.mark.parametrize(
    ("code", "status", "errors"), [("none", 0, ""), ("9", 9, ""), ("too bad", 1, "too bad\n")]
)
def test_a_plugin_that_exits_does_so_like_any_python_program(
    code: str, status: int, errors: str
) -> None:
    with started("exit", code) as client:
        assert client.process.communicate(timeout=HANG_S)[1] == errors
        assert client.process.returncode == status


def test_the_client_that_started_the_server_is_a_client_like_any_other() -> None:
    as_pulumi(
        "client = subprocess.Popen(COMMAND, stdin=PIPE, stdout=PIPE)\n"
        "plugin = psutil.Process(json.loads(client.stdout.readline())['pid'])\n"
        "client.kill()\n"
        f"plugin.wait({HANG_S})"
    )


def test_a_plugin_that_fails_says_why_and_so_does_its_client() -> None:
    done = subprocess.run(
        [sys.executable, MAIN, "no.such.module"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "No module named 'no'" in done.stderr


@pytest.mark.parametrize("differing", ["geteuid", "mounts_of"])
def test_a_server_of_another_user_or_container_is_not_asked(
    client: Client, monkeypatch: pytest.MonkeyPatch, differing: str
) -> None:
    monkeypatch.setattr(os, "getppid", os.getpid)  # this process is a client of the same Pulumi
    address = fork_client.address_of(os.getpid())
    monkeypatch.setattr(fork_client, "address_of", lambda *_: address)
    connection = fork_client.server_of_run()
    assert connection is not None
    connection.close()
    if differing == "geteuid":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        monkeypatch.setattr(fork_client, "mounts_of", lambda process: process == "self")
    assert fork_client.server_of_run() is None


def test_a_plugin_that_does_not_end_is_killed_with_its_client() -> None:
    with started("deaf") as client:
        client.process.send_signal(signal.SIGTERM)
        assert client.process.stdout is not None
        assert client.process.stdout.readline() == "told\n"
        assert client.process.poll() is None
        client.process.kill()
        client.plugin.wait(HANG_S)


def test_a_plugin_runs_even_if_its_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    script = f"rmdir '{folder}'; exec {shlex.join([*COMMAND, 'x'])}"
    done = subprocess.run(
        ["sh", "-c", script], cwd=folder, input="", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (7, "ended\n")


def test_a_server_that_is_about_to_end_is_done_without() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    assert not fork_client._handed_over(ours, STAND_IN, [], fork_client.OUTPUTS)
