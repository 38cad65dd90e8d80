"""Private hosts through EC2 Instance Connect: real OpenSSH servers behind a stand-in for the AWS
command line (aws_command.py)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from cli.environment import Environment
from cli.errors import CliError
from cli.machine.ssh_agent import agent_for
from cli.reach import document, lease
from cli.reach.lease import reaching
from cli.reach.tunnels import MOST_AT_ONCE, Tunnels, TunnelsWanted
from slipway.plan.platform import PlatformPlan, SshHost, SshPlan, TunnelsPlan
from tests.contract.sshd import PORT, ssh_server
from tests.contract.test_forwards import SERVERS, ask, planned, serve_both, service
from tests.waiting import HANG_S, until
from tests.workers import WORKER

pytestmark = pytest.mark.binaries

ENDPOINT = "eice-0123456789abcdef0"
TUNNEL_PORT = 22022
PRIVATE, LOOPBACK = f"127.91.{WORKER}.0/24", f"127.191.{WORKER}.0/24"


@dataclass
class Cloud:
    """Two servers that only the AWS command line reaches. `state` decides what it answers."""

    plan: PlatformPlan
    environment: Environment
    ssh: dict[str, ExitStack]
    state: Path

    def calls(self, command: str) -> list[str]:
        log = self.state / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if f" {command} " in line]

    def tunnels(self) -> list[psutil.Process]:
        """The processes of `open-tunnel` that run."""
        found = []
        for line in self.calls("open-tunnel"):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(line.split()[0])))
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def cloud(ssh_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    monkeypatch.setattr(document, "HEAD_START_S", HANG_S)
    state, programs = tmp_path / "aws-state", tmp_path / "bin"
    state.mkdir()
    (state / "endpoint").write_text(ENDPOINT)
    programs.mkdir()
    command = Path(__file__).with_name("aws_command.py")
    aws = programs / "aws"
    aws.write_text(f'#!/bin/sh\nexec {sys.executable} -S {command} {state} {PORT} "$@"\n')
    aws.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    tunnels = TunnelsPlan(region="us-east-1", network=PRIVATE, local=LOOPBACK)
    with ExitStack() as everything:
        ssh = {name: everything.enter_context(ExitStack()) for name in SERVERS}
        hosts: dict[str, SshHost] = {}
        authorized = ""
        for name, address in SERVERS.items():
            folder = tmp_path / name
            folder.mkdir()
            made = ssh[name].enter_context(ssh_server(ssh_files, folder, address))
            authorized = authorized or made.authorized.read_text()
            made.authorized.write_text(authorized)
            hosts[name] = SshHost(
                address=tunnels.loopback(address),
                port=TUNNEL_PORT,
                user="root",
                host_key=made.host_key,
            )
            serve_both(everything, address)
        plan = planned(
            SshPlan(
                hosts=hosts,
                jump=None,
                keys=(str(tmp_path / "server-0" / "user"),),
                known_hosts="known_hosts",
                tunnels=tunnels,
            )
        )
        environment = Environment(name="hosts", checkout=tmp_path, cache=tmp_path)
        yield Cloud(plan, environment, ssh, state)


@pytest.fixture
def reached(cloud: Cloud) -> Iterator[None]:
    plan = cloud.plan
    with agent_for(plan.ssh) as agent, reaching(cloud.environment, plan, agent):
        yield
    assert_nothing_left(cloud)


def assert_nothing_left(cloud: Cloud) -> None:
    assert cloud.plan.ssh is not None
    for host in cloud.plan.ssh.hosts.values():
        with service(host.address, host.port):  # nobody listens there
            pass
    assert cloud.tunnels() == []


def answering(cloud: Cloud) -> str:
    """The server that answers, once one does: a connection may end with the tunnel it came by."""
    found = ""

    def answers() -> bool:
        nonlocal found
        with suppress(OSError):
            found = ask(cloud.plan.operator.consul)
        return bool(found)

    until(answers)
    return found


@pytest.mark.usefixtures("reached")
def test_the_clusters_answer_through_a_tunnel_to_a_private_address(cloud: Cloud) -> None:
    assert ask(cloud.plan.operator.consul) == SERVERS["server-0"]
    (call,) = cloud.calls("open-tunnel")
    assert f"--instance-connect-endpoint-id {ENDPOINT}" in call
    assert f"--private-ip-address {SERVERS['server-0']}" in call
    (asked,) = cloud.calls("describe-instance-connect-endpoints")
    assert "Values=hosts" in asked


@pytest.mark.usefixtures("reached")
def test_every_host_has_its_own_address_and_key_on_this_machine(cloud: Cloud) -> None:
    ssh = cloud.plan.ssh
    assert ssh is not None
    for name, host in ssh.hosts.items():
        command = ["ssh-keyscan", "-T", str(int(HANG_S)), "-p", str(host.port), host.address]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert host.host_key.rpartition(" ")[0] in done.stdout, name


@pytest.mark.usefixtures("reached")
def test_a_tunnel_that_ends_is_followed_by_another_one(cloud: Cloud) -> None:
    """As after an hour, when AWS ends it."""
    assert ask(cloud.plan.operator.consul) == SERVERS["server-0"]
    (running,) = cloud.tunnels()
    running.send_signal(signal.SIGKILL)
    assert answering(cloud) in SERVERS.values()
    assert len(cloud.calls("open-tunnel")) > 1


@pytest.mark.usefixtures("reached")
def test_a_host_that_dies_is_replaced_by_the_next_one(cloud: Cloud) -> None:
    assert ask(cloud.plan.operator.consul) == SERVERS["server-0"]
    cloud.ssh["server-0"].close()
    for tunnel in cloud.tunnels():
        tunnel.send_signal(signal.SIGKILL)
    assert answering(cloud)
    last = cloud.calls("open-tunnel")[-1]
    assert SERVERS["server-1"] in last


def test_before_the_endpoint_exists_commands_say_so_and_go_on_once_it_does(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    (cloud.state / "endpoint").unlink()
    plan = cloud.plan
    with agent_for(plan.ssh) as agent, reaching(cloud.environment, plan, agent):
        said = " ".join(capsys.readouterr().err.split())
        assert '"hosts" has no EC2 Instance Connect endpoint yet' in said
        (cloud.state / "endpoint").write_text(ENDPOINT)
        assert answering(cloud) in SERVERS.values()
    assert_nothing_left(cloud)


def test_what_aws_refuses_is_said_in_its_own_words(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    (cloud.state / "refusal").write_text("Unable to locate credentials. You can configure them.")
    plan = cloud.plan
    with agent_for(plan.ssh) as agent, reaching(cloud.environment, plan, agent):
        said = " ".join(capsys.readouterr().err.split())
    assert "server-0 cannot be reached over SSH: Unable to locate credentials" in said
    assert_nothing_left(cloud)


def test_another_endpoint_is_found_when_the_known_one_is_gone(cloud: Cloud) -> None:
    plan = cloud.plan
    with agent_for(plan.ssh) as agent, reaching(cloud.environment, plan, agent):
        assert ask(plan.operator.consul) == SERVERS["server-0"]
        (cloud.state / "endpoint").write_text("eice-11111111111111111")
        for tunnel in cloud.tunnels():
            tunnel.send_signal(signal.SIGKILL)
        assert answering(cloud) in SERVERS.values()
    assert_nothing_left(cloud)


def test_without_the_aws_command_line_nothing_is_begun(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease.shutil, "which", lambda _: None)
    with pytest.raises(CliError, match="AWS command line") as refused:
        enter(cloud, {})
    assert "install it" in (refused.value.fix or "")
    assert not (cloud.state / "calls").exists()


def test_an_address_that_is_taken_is_refused_with_what_to_do(cloud: Cloud) -> None:
    assert cloud.plan.ssh is not None
    host = cloud.plan.ssh.hosts["server-1"]
    taken = pytest.raises(CliError, match=f"{host.address}:{host.port} .* already in use")
    with service(host.address, host.port), agent_for(cloud.plan.ssh) as agent, taken:
        enter(cloud, agent)
    assert_nothing_left(cloud)


def enter(cloud: Cloud, agent: Mapping[str, str]) -> None:
    with reaching(cloud.environment, cloud.plan, agent):
        pass


def test_a_host_that_an_update_removes_is_reached_until_then(cloud: Cloud) -> None:
    plan, tunnels = cloud.plan, cloud.plan.ssh.tunnels if cloud.plan.ssh else None
    assert plan.ssh is not None
    assert tunnels is not None
    hosts = {"server-0": plan.ssh.hosts["server-0"]}
    left = replace(plan, ssh=replace(plan.ssh, hosts=hosts), servers=plan.servers[:1])
    leaving = [plan.ssh.hosts["server-1"].address]
    wanted = document.forwarding_of(left, left.ssh or plan.ssh, leaving)
    assert wanted.tunnels is not None
    assert wanted.tunnels.hosts[leaving[0]] == SERVERS["server-1"]
    assert any(SERVERS["server-1"] in target for local in wanted.locals for target in local.targets)


async def test_aws_is_asked_for_no_more_connections_at_once_than_it_allows(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that come at once are served, some of them later."""
    local = LOOPBACK.replace(".0/24", ".10")
    hosts = {local: SERVERS["server-0"]}
    wanted = TunnelsWanted(region="us-east-1", environment="hosts", port=TUNNEL_PORT, hosts=hosts)
    tunnels, most, now = Tunnels(wanted, lambda: os.environ), 0, 0
    through = tunnels._through

    async def counted(
        private: str, near: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        try:
            await through(private, near)
        finally:
            now -= 1

    monkeypatch.setattr(Tunnels, "_through", lambda _, *given: counted(*given))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await tunnels.serve(local, (reader, writer))
        writer.close()

    async def greeting() -> bytes:
        reader, writer = await asyncio.open_connection(local, TUNNEL_PORT)
        line = await reader.readline()
        writer.close()
        return line

    async with await asyncio.start_server(serve, local, TUNNEL_PORT):
        greetings = await asyncio.gather(*(greeting() for _ in range(MOST_AT_ONCE + 4)))
    assert all(line.startswith(b"SSH-2.0") for line in greetings)
    assert most <= MOST_AT_ONCE
