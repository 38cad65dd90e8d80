"""The gate of a pool: which nodes count, what the others lack, and what it does about a new one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from gates import pool
from gates.pool import Gate
from hangs import HANG_S
from program.errors import InputError
from program.http_json import Api, ApiError
from served import served

DOCUMENT: dict[str, Any] = {
    "schema_version": 2,
    "address": "http://127.0.0.1:1",
    "pool": "cpu",
    "count": 2,
    "ready_timeout_s": 60,
}
SECRETS = {"schema_version": 1, "management_token": "canary"}


def node(number: int, **changes: Any) -> dict[str, Any]:
    """A node that takes work, as Nomad has it; the `number`-th that registered."""
    return {
        "ID": str(number),
        "Name": f"cpu-{number}",
        "Address": f"127.77.0.{number}",
        "NodePool": "cpu",
        "Status": "ready",
        "SchedulingEligibility": "eligible",
        "CreateIndex": number,
        "HTTPAddr": f"127.77.0.{number}:4646",
        "Attributes": {"consul.version": "1.22.6"},
    } | changes


class Servers(Api):
    """The servers' Nomad API."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1")
        self.nodes = {each["ID"]: each for each in nodes}
        self.artifacts: dict[str, str] = {}  # what nodes say that they have, by their names

    def get(self, path: str) -> Any:
        _, _, found = path.rpartition("/")
        if path.startswith("/v1/var/slipway/nodes/"):
            if found not in self.artifacts:
                raise ApiError("there is no such variable", 404)
            return {"Items": {"artifacts": self.artifacts[found]}}
        return list(self.nodes.values()) if found == "nodes" else self.nodes[found]


def missing(servers: Servers, count: int, artifacts: str = "") -> str | None:
    return pool.missing(
        Gate(pool="cpu", count=count, ready_timeout_s=60, artifacts=artifacts, nomad=servers)
    )


def test_as_many_nodes_as_the_document_says_are_enough_whatever_their_names() -> None:
    servers = Servers(node(1), node(2, Name="i-0c2f"))
    assert missing(servers, 2) is None
    assert missing(servers, 1) is None
    assert missing(servers, 3) == "2 of 3 nodes accept work; 1 not registered"


def test_before_the_first_registers_no_node_accepts_work() -> None:
    assert missing(Servers(), 2) == "0 of 2 nodes accept work; 2 not registered"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"SchedulingEligibility": "ineligible"}, "cpu-2 is ineligible"),
        ({"Status": "disconnected"}, "cpu-2 is disconnected"),
        ({"Attributes": {}}, "cpu-2 has not found its Consul agent"),
        ({"Status": "down"}, "1 not registered"),
        ({"NodePool": "edge"}, "1 not registered"),
    ],
)
def test_a_node_that_does_not_accept_the_pools_work_does_not_count(
    changes: dict[str, Any], said: str
) -> None:
    assert missing(Servers(node(1), node(2, **changes)), 2) == f"1 of 2 nodes accept work; {said}"


@pytest.mark.parametrize(
    "same",
    [{"Name": "cpu-1"}, {"Address": "127.77.0.1"}, {"Name": "cpu-1", "Address": "127.77.0.1"}],
)
@pytest.mark.parametrize("stale_status", ["ready", "down"])
def test_what_a_machine_left_behind_when_it_lost_its_data_does_not_count(
    same: dict[str, Any], stale_status: str
) -> None:
    servers = Servers(node(1, Status=stale_status), node(2, **same))
    assert missing(servers, 1) is None
    assert missing(servers, 2) == "1 of 2 nodes accept work; 1 not registered"


def test_an_entry_left_behind_does_not_stand_in_for_the_machines_new_one() -> None:
    servers = Servers(node(1), node(2, Name="cpu-1", SchedulingEligibility="ineligible"))
    assert missing(servers, 1) == "0 of 1 nodes accept work; cpu-1 is ineligible"


def test_every_node_must_have_what_jobs_run_however_many_are_enough() -> None:
    servers = Servers(node(1), node(2), node(3))
    servers.artifacts = {"cpu-1": "a" * 64, "cpu-2": "b" * 64}
    assert missing(servers, 1, "a" * 64) == (
        "1 of 1 nodes accept work; cpu-2 fetches what jobs run, cpu-3 fetches what jobs run"
    )
    assert missing(servers, 3) is None
    servers.artifacts = dict.fromkeys(("cpu-1", "cpu-2", "cpu-3"), "a" * 64)
    assert missing(servers, 1, "a" * 64) is None


def test_a_document_that_names_the_nodes_means_as_many() -> None:
    before = {key: DOCUMENT[key] for key in DOCUMENT if key != "count"}
    before |= {"schema_version": 1, "nodes": ["cpu-0", "cpu-1", "cpu-2"]}
    assert pool.read_gate(before, SECRETS).count == 3
    assert pool.read_gate(DOCUMENT, SECRETS).count == 2


@pytest.mark.parametrize("key", ["address", "pool", "count", "ready_timeout_s"])
def test_a_document_without_a_required_key_is_refused(key: str) -> None:
    document = {each: DOCUMENT[each] for each in DOCUMENT if each != key}
    with pytest.raises(InputError, match=r"schemas/pool-gate\.schema\.json"):
        pool.read_gate(document, SECRETS)


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A node's agent: its address, and the paths it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"127.0.0.1:{server.server_port}", paths


def test_a_new_nodes_agent_is_asked_for_what_makes_it_send_its_first_heartbeat(
    asked: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ASK_TIMEOUT_S", HANG_S)
    address, paths = asked
    servers = Servers(node(1, Status="initializing", HTTPAddr=address))
    assert missing(servers, 1) == "0 of 1 nodes accept work; cpu-1 is initializing"
    assert paths == ["/v1/status/leader"]  # an answer of the servers', through the agent
    servers.nodes["1"]["Status"] = "ready"
    assert missing(servers, 1) is None
    assert len(paths) == 1


@pytest.mark.parametrize("listens", [True, False])
def test_an_agent_that_does_not_answer_is_waited_for_all_the_same(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ASK_TIMEOUT_S", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        address = "{}:{}".format(*silent.getsockname())
        servers = Servers(node(1, Status="initializing", HTTPAddr=address))
        assert missing(servers, 1) == "0 of 1 nodes accept work; cpu-1 is initializing"
