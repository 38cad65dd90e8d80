"""What a Nomad client waits for before it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hangs import HANG_S
from host.document import Agent
from host.prerequisites import wait_for_prerequisites
from program.errors import HostError
from program.folders import Folders, to_json, write_private
from served import served

CATALOG = "/v1/catalog/service/consul-agent?filter=Node+%3D%3D+%22cpu-0%22"
LEADER = "/v1/status/leader"
NOTHING_ANSWERS = "http://127.0.0.1:1"
NOMAD_CLIENT = Agent(
    host="cpu-0",
    name="nomad",
    stage=4,
    command=("nomad",),
    ready_url=NOTHING_ANSWERS,
    ready_timeout_s=HANG_S,
    stop_timeout_s=1,
)


class Clusters(ThreadingHTTPServer):
    """Consul and Nomad at once: path -> what they answer, one after the other; the last remains."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, list[object]] = {
            CATALOG: [[{"Node": "cpu-0"}]],
            LEADER: ["127.77.0.1:4647"],
        }
        self.asked: list[str] = []
        self.token = ""


class _Handler(BaseHTTPRequestHandler):
    server: Clusters

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == CATALOG:
            self.server.token = self.headers["X-Consul-Token"]
        answers = self.server.answers[self.path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with served(Clusters()) as server:
        yield server


@pytest.fixture
def folders(tmp_path: Path, clusters: Clusters) -> Folders:
    """A host whose Nomad client has its files."""
    folders = Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path)
    secrets = {"acl": {"tokens": {"agent": "canary"}}}
    write_private(folders.agent("cpu-0", "consul") / "secrets.json", to_json(secrets))
    wait_at(folders, clusters.address, [clusters.address])
    return folders


def wait_at(folders: Folders, consul: str, nomad: list[str]) -> None:
    document = {"consul": consul, "consul_service": "consul-agent", "nomad": nomad}
    write_private(folders.agent("cpu-0", "nomad") / "starts-after.json", to_json(document))


def test_it_waits_for_the_consul_agents_own_service_and_for_a_leader(
    clusters: Clusters, folders: Folders
) -> None:
    clusters.answers = {CATALOG: [[], [], [{"Node": "cpu-0"}]], LEADER: ["", "127.77.0.1:4647"]}
    wait_for_prerequisites(folders, NOMAD_CLIENT)
    assert clusters.asked == [CATALOG, CATALOG, CATALOG, LEADER, CATALOG, LEADER]
    assert clusters.token == "canary"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (CATALOG, "Consul's catalog has no consul-agent on cpu-0"),
        (LEADER, "Nomad has no leader"),
    ],
)
def test_it_gives_up_with_what_is_missing(
    clusters: Clusters, folders: Folders, path: str, said: str
) -> None:
    clusters.answers[path] = [[]]
    gave_up = f"nomad on cpu-0: prerequisites: gave up after 1 s: {said}"
    with pytest.raises(HostError, match=gave_up):
        wait_for_prerequisites(folders, replace(NOMAD_CLIENT, ready_timeout_s=1))


def test_one_server_that_knows_a_leader_is_enough(clusters: Clusters, folders: Folders) -> None:
    wait_at(folders, clusters.address, [NOTHING_ANSWERS, clusters.address])
    wait_for_prerequisites(folders, NOMAD_CLIENT)
    assert clusters.asked == [CATALOG, LEADER]


def test_an_agent_whose_document_names_nothing_waits_for_nothing(
    clusters: Clusters, tmp_path: Path
) -> None:
    nobody = Folders(run=tmp_path / "other", cache=tmp_path, scratch=tmp_path)
    wait_for_prerequisites(nobody, NOMAD_CLIENT)
    assert clusters.asked == []
