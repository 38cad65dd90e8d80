"""Recovery from runs that were killed or failed halfway, under a real supervisord."""

from __future__ import annotations

import dataclasses
import http.server
import json
import shutil
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hangs import HANG_S
from host import lifecycle
from host.agent_files import prerequisites_of
from host.document import Agent, Endpoint, Host, Prerequisites
from host.supervisor import Supervisor
from host.supervisord import Supervisord
from host.supervisors import supervisor_of
from program.errors import HostError
from program.folders import Folders, write_private

pytestmark = pytest.mark.binaries

NETWORK = "127.98.0."
NOWHERE = "http://127.98.0.99:1"
# Answers with what it was started with: an argument, its configuration and its secrets.
AGENT = """
import http.server, pathlib, socketserver, sys

address, _, port, said, *files = sys.argv[1:]
for file in files:
    said += pathlib.Path(file.partition("=")[2]).read_text()

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, *_):
        pass

socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer((address, int(port)), Answer).serve_forever()
"""


class KilledError(BaseException):
    """Ends a run as a signal would: nothing catches it."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """Hosts with one agent each; `script` is their program."""

    folders: Folders
    script: Path

    def host(self, last: int, command: str = "first", configuration: str = "first") -> Host:
        name, address = f"cpu-{last}", f"{NETWORK}{last}"
        folder = self.folders.agent(name, "consul")
        files = [f"-config-file={folder / file}" for file in ("config.json", "secrets.json")]
        agent = Agent(
            host=name,
            name="consul",
            stage=2,
            command=(sys.executable, str(self.script), address, ":", "8500", command, *files),
            ready_url=f"http://{address}:8500/",
            ready_timeout_s=120,
            stop_timeout_s=120,
        )
        return Host(
            name=name,
            supervisor=Endpoint(address=f"{NETWORK}1", port=9001),
            agents=(agent,),
            configurations={"consul": {"configuration": configuration}},
            prerequisites={},
            departure=None,
        )

    def apply(self, last: int, secret: str = "first", **changes: str) -> Host:
        host = self.host(last, **changes)
        lifecycle.apply(self.folders, host, {"agents": {"consul": {"secret": secret}}})
        return host

    def supervisor(self) -> Supervisor:
        found = supervisor_of(self.folders)
        assert found is not None
        return found


@pytest.fixture
def machine() -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="slipway nöde "))
    (root / "agent.py").write_text(AGENT)
    folders = Folders(run=root / "run", cache=root / "cache", scratch=root / "scratch")
    yield Machine(folders, root / "agent.py")
    lifecycle.stop(folders)
    shutil.rmtree(root)


def said(host: Host) -> str:
    """What the running agent was started with."""
    with urllib.request.urlopen(host.agents[0].ready_url, timeout=HANG_S) as response:
        content: bytes = response.read()
    return content.decode()


@contextmanager
def killed_after(moment: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run that ends when a file of this name is in place, or all are and the agent is to end."""
    replace = Path.replace

    def place(path: Path, target: Path) -> None:
        replace(path, target)
        if target.name == moment:
            raise KilledError

    def end(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", place)
        if moment == "everything":
            patched.setattr(Supervisord, "stop", end)
        with pytest.raises(KilledError):
            yield


@pytest.mark.parametrize("between", ["at once", "after a start"])
@pytest.mark.parametrize(
    ("change", "moment"),
    [
        ("configuration", "config.json"),
        ("secret", "secrets.json"),
        ("command", "program.json"),
        ("command", "cpu-16-consul.conf"),
        ("command", "everything"),
        ("configuration", "everything"),
    ],
)
def test_what_a_killed_run_has_written_is_what_runs_after_the_next(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, change: str, moment: str, between: str
) -> None:
    host = machine.apply(16)
    assert "second" not in said(host)
    with killed_after(moment, monkeypatch):
        machine.apply(16, **{change: "second"})
    if between == "after a start":
        lifecycle.start(machine.folders)
    machine.apply(16, **{change: "second"})
    assert "second" in said(host)


def test_an_agent_that_runs_with_its_files_is_not_started_again(machine: Machine) -> None:
    host = machine.apply(16)
    before = machine.supervisor().state(host.agents[0])
    machine.apply(16)
    lifecycle.start(machine.folders)
    after = machine.supervisor().state(host.agents[0])
    assert before is not None
    assert after is not None
    assert after.pid == before.pid


@contextmanager
def election(rounds: int) -> Iterator[tuple[str, list[str]]]:
    """A server that knows no leader until it was asked `rounds` times: its URL, and its answers."""
    answers: list[str] = []

    class Status(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.append("127.0.0.1:8300" if len(answers) >= rounds else "")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answers[-1]).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer((f"{NETWORK}1", 0), Status) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://{NETWORK}1:{server.server_port}/", answers
        finally:
            server.shutdown()


def test_a_restarted_server_is_done_once_it_knows_a_leader(machine: Machine) -> None:
    secrets = {"agents": {"consul": {"secret": "first"}}}
    with election(rounds=3) as (url, answers):
        first = dataclasses.replace(machine.host(16), leader_urls={"consul": url})
        lifecycle.apply(machine.folders, first, secrets)
        assert answers == []  # the other servers may not be there yet
        changed = dataclasses.replace(
            machine.host(16, configuration="second"), leader_urls={"consul": url}
        )
        lifecycle.apply(machine.folders, changed, secrets)
        assert answers == ["", "", "", "127.0.0.1:8300"]
        lifecycle.apply(machine.folders, changed, secrets)
        assert len(answers) == 4


def test_an_agent_that_runs_is_not_started_again_for_what_it_should_have_waited_for(
    machine: Machine,
) -> None:
    host = machine.apply(16)
    before = machine.supervisor().state(host.agents[0])
    nowhere = Prerequisites(consul=NOWHERE, consul_service="consul-agent", nomad=(NOWHERE,))
    waiting = dataclasses.replace(host, prerequisites={"consul": nowhere})
    lifecycle.apply(machine.folders, waiting, {"agents": {"consul": {"secret": "first"}}})
    after = machine.supervisor().state(host.agents[0])
    assert before is not None
    assert after is not None
    assert after.pid == before.pid
    assert prerequisites_of(machine.folders, host.agents[0]) == nowhere


def test_an_agent_that_supervisord_has_never_heard_of_is_started(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_after("program.json", monkeypatch):
        machine.apply(16)
    lifecycle.start(machine.folders)
    assert "first" in said(machine.host(16))


def test_an_agent_whose_section_is_lost_is_stopped_started_and_applied_again(
    machine: Machine,
) -> None:
    host = machine.apply(16)
    for _ in range(2):
        machine.supervisor().unload(host.agents[0])
        lifecycle.start(machine.folders)
        assert "first" in said(host)
        machine.supervisor().unload(host.agents[0])
        lifecycle.stop(machine.folders)
    machine.apply(17)
    assert "first" in said(host)


def test_a_removal_that_fails_starts_nothing_again_and_can_be_repeated(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving, other = machine.apply(16), machine.apply(17)
    write_private(machine.folders.token("nomad"), "the operator's")

    def fail(_: Path) -> None:
        raise HostError("cannot unmount")

    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "reap", fail)
        with pytest.raises(HostError, match="cannot unmount"):
            lifecycle.remove(machine.folders, leaving)
    lifecycle.start(machine.folders)
    assert [record["host"] for record in lifecycle.status(machine.folders)] == ["cpu-17"]
    lifecycle.remove(machine.folders, other)
    assert machine.supervisor().answers()  # a host is still to be removed
    assert machine.folders.token("nomad").exists()
    lifecycle.remove(machine.folders, leaving)
    assert not machine.folders.nodes.exists()
    assert not machine.folders.tokens.exists()
    assert not machine.folders.supervisor.exists()
