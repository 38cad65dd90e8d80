"""The forwards of an environment through real OpenSSH servers: one that answers, another once it is
gone, and nothing that is left at the end."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import psutil
import pytest

from cli.certificates import platform
from cli.environment import Environment
from cli.errors import CliError
from cli.machine.ssh_agent import agent_for
from cli.reach import document
from cli.reach.lease import reaching
from services.program.tests.certificates import Authority
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import PlatformPlan, Server, SshHost, SshPlan
from stacks.planning import make_plan
from tests.contract.sshd import PORT, ssh_server
from tests.unit.plan.samples import hosts_inputs
from tests.waiting import HANG_S, until
from tests.workers import WORKER

pytestmark = pytest.mark.binaries

SERVERS = {f"server-{number}": f"127.91.{WORKER}.{10 + number}" for number in range(2)}
EDGES = {f"edge-{number}": f"127.91.{WORKER}.{20 + number}" for number in range(2)}
LOCAL = f"127.191.{WORKER}.1"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is overtaken for being slow: another one comes after one that has failed."""
    monkeypatch.setattr(document, "HEAD_START_S", HANG_S)


@pytest.fixture
def _haste(monkeypatch: pytest.MonkeyPatch, _patience: None) -> None:
    """Who does not answer at once is overtaken."""
    monkeypatch.setattr(document, "HEAD_START_S", 0.05)


class Named(socketserver.StreamRequestHandler):
    """Answers every line with the address of the server."""

    def handle(self) -> None:
        address, _ = self.connection.getsockname()
        while self.rfile.readline():
            self.wfile.write(f"{address}\n".encode())


@contextmanager
def service(address: str, port: int) -> Iterator[None]:
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    with running(socketserver.ThreadingTCPServer((address, port), Named)):
        yield


def serve_both(apis: ExitStack, address: str) -> None:
    """The APIs of both clusters on one server."""
    for port in (8501, 4646):
        apis.enter_context(service(address, port))


@contextmanager
def running(made: socketserver.TCPServer) -> Iterator[None]:
    with made as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Network:
    """Two servers with SSH and both APIs, each to be ended by name."""

    plan: PlatformPlan
    environment: Environment
    ssh: dict[str, ExitStack]
    apis: dict[str, ExitStack]


@pytest.fixture
def network(ssh_files: Path, tmp_path: Path) -> Iterator[Network]:
    with ExitStack() as everything:
        ssh = {name: everything.enter_context(ExitStack()) for name in SERVERS}
        apis = {name: everything.enter_context(ExitStack()) for name in SERVERS}
        hosts: dict[str, SshHost] = {}
        for name, address in SERVERS.items():
            folder = tmp_path / name
            folder.mkdir()
            made = ssh[name].enter_context(ssh_server(ssh_files, folder, address))
            hosts[name] = SshHost(address=address, port=PORT, user="root", host_key=made.host_key)
            if name == "server-0":
                key = folder / "user"
                authorized = made.authorized.read_text()
            made.authorized.write_text(authorized)
            serve_both(apis[name], address)
        plan = planned(SshPlan(hosts=hosts, jump=None, keys=(str(key),), known_hosts="known_hosts"))
        environment = Environment(name="hosts", checkout=tmp_path, cache=tmp_path)
        yield Network(plan, environment, ssh, apis)


def planned(ssh: SshPlan) -> PlatformPlan:
    settings = {"known_hosts": "known_hosts", "local_address": LOCAL}
    servers = tuple(Server(name=name, address=address) for name, address in SERVERS.items())
    room = {"kind": "metal", "memory": "16GiB", "cpu": 8}
    edges = [{"name": name, "address": f"10.77.0.{30 + k}"} for k, name in enumerate(EDGES)]
    worker = {"name": "worker-0", "address": "10.77.0.21"}
    pools = {"cpu": {**room, "hosts": [worker]}, "edge": {**room, "hosts": edges}}
    plan = make_plan(hosts_inputs(ssh=settings, pools=pools))
    envoys = tuple(
        replace(envoy, listener=envoy.listener.at(address))
        for envoy, address in zip(plan.gateway.envoys, EDGES.values(), strict=True)
    )
    gateway = replace(plan.gateway, envoys=envoys)
    return replace(plan, ssh=ssh, servers=servers, gateway=gateway)


def ask(endpoint: Endpoint) -> str:
    """Which server answers."""
    with socket.create_connection((endpoint.host, endpoint.port), timeout=HANG_S) as connection:
        connection.sendall(b"who\n")
        return connection.makefile().readline().strip()


def wait_for_the_other(network: Network) -> None:
    """Until server-1 answers: a connection that is made while SSH ends may end with it."""

    def answers() -> bool:
        with suppress(OSError):
            return ask(network.plan.operator.consul) == SERVERS["server-1"]
        return False

    until(answers)


def test_both_clusters_are_asked_at_fixed_addresses(network: Network) -> None:
    plan = network.plan
    with agent_for(plan.ssh) as agent, reaching(network.environment, plan, agent) as variables:
        assert ask(plan.operator.consul) == SERVERS["server-0"]
        assert ask(plan.operator.nomad) == SERVERS["server-0"]
        assert variables["NOMAD_TLS_SERVER_NAME"] == "server.global.nomad"
    assert_closed(network)


def assert_closed(network: Network) -> None:
    with pytest.raises(ConnectionRefusedError):
        ask(network.plan.operator.consul)
    assert ours(network) == []
    assert list(network.environment.scratch.iterdir()) == []


def ours(network: Network) -> list[psutil.Process]:
    """Every process of the forwards, and of their ssh-agents."""
    scratch = str(network.environment.scratch)
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(scratch in part for part in process.info["cmdline"] or ())
    ]


@contextmanager
def reached(network: Network) -> Iterator[Mapping[str, str]]:
    plan = network.plan
    with agent_for(plan.ssh) as agent, reaching(network.environment, plan, agent) as variables:
        yield variables


def test_a_server_whose_agent_does_not_run_is_passed_over(network: Network) -> None:
    network.apis["server-0"].close()
    with reached(network):
        assert ask(network.plan.operator.consul) == SERVERS["server-1"]
    assert_closed(network)


def test_a_server_that_dies_is_replaced_by_another_one(network: Network) -> None:
    with reached(network):
        assert ask(network.plan.operator.consul) == SERVERS["server-0"]
        network.apis["server-0"].close()
        end_the_ssh_of(network, "server-0")
        wait_for_the_other(network)
    assert_closed(network)


def test_a_connection_outlasts_a_server_that_falls_silent(network: Network) -> None:
    with reached(network):
        network.apis["server-0"].close()
        silent = ssh_of(network, "server-0")
        assert len(silent) > 1, "the one that listens, and the connection"
        for process in silent:
            process.suspend()
        try:
            assert ask(network.plan.operator.consul) == SERVERS["server-1"]
        finally:
            for process in silent:
                process.kill()
    assert_closed(network)


def shown(authority: Authority, name: str, operator: Path, own: Path) -> ssl.SSLContext:
    """A server's, with a certificate of this name. Writes the operator's files, too."""
    for folder, files in (
        (own, authority.issue("server", [name])),
        (operator, authority.issue("operator")),
    ):
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "cert.pem", own / "key.pem")
    return context


class Led(http.server.BaseHTTPRequestHandler):
    """Answers as an agent of Consul or Nomad does; only server-1 knows a leader."""

    def do_GET(self) -> None:
        address, _ = self.connection.getsockname()
        leader = "10.0.0.1:4647" if address == SERVERS["server-1"] else ""
        body = json.dumps(leader if self.path == "/v1/status/leader" else address).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_knows_a_leader_is_asked_before_one_that_has_yet_to_join(
    network: Network, tmp_path: Path
) -> None:
    operator = network.environment.access / "operator"
    context = shown(Authority(), "server.global.nomad", operator, tmp_path / "tls")
    for server, address in SERVERS.items():
        network.apis[server].close()
        made = http.server.ThreadingHTTPServer((address, 4646), Led)
        made.socket = context.wrap_socket(made.socket, server_side=True)
        network.apis[server].enter_context(running(made))
    with reached(network):
        nomad = network.plan.operator.nomad
        verify = platform(operator, nomad.server_name)

        def who() -> str:
            answer: str = httpx.get(f"{nomad.url}/v1/who", verify=verify, timeout=HANG_S).json()
            return answer

        # A server that is slow to answer is asked for a leader again, and not preferred meanwhile.
        until(lambda: who() == SERVERS["server-1"])
    assert_closed(network)


class Gateway(socketserver.ThreadingTCPServer):
    """An Envoy of the second edge host; the first has none. `asked` are the requests."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        super().__init__((EDGES["edge-1"], port), Model)
        self.asked: list[str] = []
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)


class Model(socketserver.StreamRequestHandler):
    """Greets a client of HTTP/2 and answers one of HTTP/1.1, but not soon."""

    server: Gateway

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        if line.startswith("PRI "):
            self.wfile.write(b"\0\0\0\4\0\0\0\0\0")
        elif line:
            self.server.asked.append(line.strip())
            time.sleep(10 * document.HEAD_START_S)
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nedge-1")


@pytest.mark.usefixtures("_haste")
def test_another_envoy_is_asked_where_the_first_does_not_run_and_only_once(
    network: Network,
) -> None:
    listener = network.plan.operator.envoys[0].listener
    gateway = Gateway(listener.port)
    with running(gateway), reached(network):
        for _ in range(2):
            answer = httpx.get(f"{listener.url}/v1/models", timeout=HANG_S, trust_env=False)
            assert answer.text == "edge-1"
    assert gateway.asked == ["GET /v1/models HTTP/1.1"] * 2
    assert_closed(network)


@pytest.mark.usefixtures("_haste")
def test_another_envoy_is_asked_over_tls_too(network: Network, tmp_path: Path) -> None:
    operator = network.environment.access / "operator"  # with which only servers are looked at
    context = shown(Authority(), "llm.example.com", operator, tmp_path / "tls")
    listener = replace(network.plan.operator.envoys[0].listener, scheme="https")
    gateway = Gateway(listener.port, context)
    with running(gateway), reached(network):
        verify = platform(operator, "llm.example.com")
        answer = httpx.get(f"{listener.url}/v1/models", verify=verify, timeout=HANG_S)
        assert answer.text == "edge-1"
    assert gateway.asked == ["GET /v1/models HTTP/1.1"]
    assert_closed(network)


@pytest.mark.usefixtures("_haste")
def test_a_silent_server_behind_a_jump_host_is_overtaken(network: Network) -> None:
    """The client of the jump host would wait for it, and outlive the client that has given up."""
    ssh = network.plan.ssh
    assert ssh is not None
    network.plan = replace(network.plan, ssh=replace(ssh, jump=ssh.hosts["server-1"]))
    silent = ssh_of(network, "server-0")
    for process in silent:
        process.suspend()
    try:
        with reached(network):
            assert ask(network.plan.operator.consul) in SERVERS.values()
        assert_closed(network)
    finally:
        for process in silent:
            process.resume()


def test_the_next_server_is_used_where_the_first_one_has_no_ssh(network: Network) -> None:
    network.ssh["server-0"].close()
    with reached(network):
        assert ask(network.plan.operator.nomad) == SERVERS["server-0"], "its API answers"
    assert_closed(network)


def test_a_host_with_another_key_is_not_used(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    ssh = network.plan.ssh
    assert ssh is not None
    hosts = dict(ssh.hosts)
    hosts["server-0"], hosts["server-1"] = (
        replace(hosts["server-0"], host_key=hosts["server-1"].host_key),
        replace(hosts["server-1"], host_key=hosts["server-0"].host_key),
    )
    network.plan = replace(network.plan, ssh=replace(ssh, hosts=hosts))
    with reached(network):
        said = capsys.readouterr().err
    assert "server-0 cannot be reached over SSH: " in said
    assert "Host key verification failed" in said
    assert_closed(network)


def test_a_host_that_refuses_to_forward_is_named_with_what_to_do(
    network: Network, ssh_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with forbidding(network, ssh_files, tmp_path):
        with reached(network):
            assert ask(network.plan.operator.prometheus) == ""
            assert ask(network.plan.operator.consul) == ""
        said = capsys.readouterr().err
    assert "the sshd of server-0 refuses to forward: channel " in said
    assert "administratively prohibited" in said
    assert "channels.c" not in said
    assert "AllowTcpForwarding yes" in said
    assert_closed(network)


def test_a_jump_host_that_refuses_to_forward_is_named_with_what_to_do(
    network: Network, ssh_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with forbidding(network, ssh_files, tmp_path) as jump:
        assert network.plan.ssh is not None
        network.plan = replace(network.plan, ssh=replace(network.plan.ssh, jump=jump))
        with reached(network):
            said = capsys.readouterr().err
    assert "server-1 cannot be reached over SSH: channel 0: open failed: administ" in said
    assert f"{jump.address} needs AllowTcpForwarding yes in its sshd_config" in said
    assert_closed(network)


@contextmanager
def forbidding(network: Network, files: Path, tmp_path: Path) -> Iterator[SshHost]:
    """The first server's sshd forbids it."""
    ssh = network.plan.ssh
    assert ssh is not None
    address, folder = SERVERS["server-0"], tmp_path / "forbidding"
    authorized = (tmp_path / "server-0/user.pub").read_text()
    network.ssh["server-0"].close()
    folder.mkdir()
    with ssh_server(files, folder, address, "AllowTcpForwarding no") as made:
        made.authorized.write_text(authorized)
        host = replace(ssh.hosts["server-0"], host_key=made.host_key)
        changed = replace(ssh, hosts={**ssh.hosts, "server-0": host})
        network.plan = replace(network.plan, ssh=changed)
        yield host


def test_a_second_command_shares_the_forwards_and_outlives_the_first(network: Network) -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(reached(network))
    second.enter_context(reached(network))
    first.close()
    assert ask(network.plan.operator.consul) == SERVERS["server-0"]
    network.apis["server-0"].close()
    end_the_ssh_of(network, "server-0")
    wait_for_the_other(network)  # by the second one's agent
    second.close()
    assert_closed(network)


def test_other_addresses_than_those_that_are_forwarded_are_refused(network: Network) -> None:
    with reached(network):
        fewer = replace(network.plan, servers=network.plan.servers[:1])
        with (
            pytest.raises(CliError, match="with other hosts or addresses"),
            reaching(network.environment, fewer, {}),
        ):
            pass
        assert ask(network.plan.operator.consul) == SERVERS["server-0"]
    assert_closed(network)


def test_an_address_that_is_taken_is_refused_with_what_to_do(network: Network) -> None:
    with service(LOCAL, 4646):
        with pytest.raises(CliError, match=rf"{LOCAL}:4646 .* Address already in use") as refused:
            network_is_entered(network)
        assert "slipway:ssh.local_address" in refused.value.fix
    assert_closed(network)


def network_is_entered(network: Network) -> None:
    with reached(network):
        pass


def test_nothing_is_left_of_a_command_that_is_killed(network: Network, tmp_path: Path) -> None:
    """Through a jump host, whose connection has a process of its own."""
    ssh = network.plan.ssh
    assert ssh is not None
    jumped = replace(ssh, jump=ssh.hosts["server-1"])
    network.plan = replace(network.plan, ssh=jumped)
    killed = forked(lambda: hold(network, tmp_path / "open"))
    try:
        until((tmp_path / "open").exists)
        assert ask(network.plan.operator.consul) == SERVERS["server-0"]
        found = [*ours(network), *psutil.Process(killed).children(recursive=True)]
        assert {"cat", "python", "ssh", "ssh-agent"} <= {process.name() for process in found}
    finally:
        os.kill(killed, signal.SIGKILL)
        os.waitpid(killed, 0)
    until(lambda: not any(process.is_running() for process in found))
    assert_closed(network)


def hold(network: Network, opened: Path) -> None:
    with reached(network):
        opened.touch()
        signal.pause()


def forked(program: Callable[[], None]) -> int:
    """A process that runs the program."""
    pid = os.fork()
    if not pid:
        try:
            program()
        finally:
            os._exit(1)
    return pid


def test_no_client_outlives_a_keeper_that_is_killed(network: Network) -> None:
    with reached(network):
        keeper = next(p for p in ours(network) if any("keeper" in part for part in p.cmdline()))
        keeper.kill()
        until(lambda: not any("reach-" in part for p in ours(network) for part in p.cmdline()))
    with reached(network):
        assert ask(network.plan.operator.consul) == SERVERS["server-0"]


def end_the_ssh_of(network: Network, server: str) -> None:
    """With its connections, which sshd would leave alone."""
    for process in ssh_of(network, server):
        process.kill()
    network.ssh[server].close()


def ssh_of(network: Network, server: str) -> list[psutil.Process]:
    """The server, and what serves its connections."""
    address = network.plan.servers[list(SERVERS).index(server)].address
    return [
        process
        for process in psutil.process_iter(["name"])
        if process.info["name"] == "sshd"
        and any(c.laddr and c.laddr[0] == address for c in process.net_connections())
    ]
