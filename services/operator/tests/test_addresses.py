"""Hosts that a document does not name are spoken to as those that it names."""

from __future__ import annotations

from typing import Any

import pytest
from gates import pool
from gates.gateway import control_planes
from program.http_json import Api

NEW_NODE = {"ID": "1", "Name": "cpu-0", "Address": "10.0.0.9", "NodePool": "cpu"} | {
    "Status": "initializing",
    "CreateIndex": 1,
    "HTTPAddr": "10.0.0.9:4646",
}
CONTROL_PLANE = {
    "Node": {"Address": "10.0.0.8"},
    "Service": {"Address": "", "Port": 18001},
}


class Answering(Api):
    """An agent that gives the same answer to all questions."""

    def __init__(self, address: str, answer: Any) -> None:
        super().__init__(address)
        self.answer = answer

    def get(self, path: str) -> Any:
        return self.answer if "/v1/node/" not in path else self.answer[0]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_control_planes_have_the_scheme_of_consul(scheme: str) -> None:
    (found,) = control_planes(Answering(f"{scheme}://10.0.0.2:8500", [CONTROL_PLANE]))
    assert found.address == f"{scheme}://10.0.0.8:18001"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_new_nodes_agent_has_the_scheme_of_nomads_servers(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(pool, "_hasten_first_heartbeat", asked.append)
    nomad = Answering(f"{scheme}://10.0.0.2:4646", [NEW_NODE])
    gate = pool.Gate(pool="cpu", count=1, ready_timeout_s=60, artifacts="", nomad=nomad)
    pool.missing(gate)
    assert asked == [f"{scheme}://10.0.0.9:4646"]
