"""The gate of a pool: what a node still lacks, and what it does about a new one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import nomad_nodes
import pytest
from http_json import Api
from served import served


class Servers(Api):
    """The servers' Nomad API with one new node, whose agent is at `agent`."""

    def __init__(self, agent: str) -> None:
        super().__init__("http://127.0.0.1:1")
        self.node = {
            "ID": "1",
            "Name": "cpu-0",
            "NodePool": "cpu",
            "Status": "initializing",
            "SchedulingEligibility": "eligible",
            "HTTPAddr": agent,
            "Attributes": {"consul.version": "1.22.6"},
        }

    def get(self, path: str) -> Any:
        return [self.node] if path == "/v1/nodes" else self.node


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
    asked: tuple[str, list[str]],
) -> None:
    address, paths = asked
    servers = Servers(address)
    missing = nomad_nodes.missing(servers, "cpu", ["cpu-0"])
    assert missing == "0 of 1 ready; cpu-0 is initializing"
    assert paths == ["/v1/status/leader"]  # an answer of the servers', through the agent
    servers.node["Status"] = "ready"
    assert nomad_nodes.missing(servers, "cpu", ["cpu-0"]) is None
    assert len(paths) == 1


@pytest.mark.parametrize("listens", [True, False])
def test_an_agent_that_does_not_answer_is_waited_for_all_the_same(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nomad_nodes, "ASK_TIMEOUT_S", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        servers = Servers("{}:{}".format(*silent.getsockname()))
        missing = nomad_nodes.missing(servers, "cpu", ["cpu-0"])
    assert missing == "0 of 1 ready; cpu-0 is initializing"
