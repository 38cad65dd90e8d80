"""How the programs handle clusters that do not answer for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_clock import Clock
from gates.gateway import Gateway
from gates.model import Gate, aftermath
from gates.model_job import STABLE, ModelJob
from gates.replica_exchange import Exchange, GivenUpError
from program.http_json import Api, ApiError

NO_LEADER = ApiError("GET /v1/job/model-m-1: HTTP 500 No cluster leader", 500)
GROUP = {"Name": "replica", "Count": 2, "Scaling": {"Min": 2}}


class Cluster(Api):
    """Nomad and Consul at once: an old job's replicas make room for a new one's.

    `silent` says whether it refuses a request, by the number of the request.
    """

    def __init__(self, silent: Callable[[int], bool]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._silent = silent
        self._asked = 0
        self.counts = {"model-m-0": 2, "model-m-1": 2}

    def get(self, path: str) -> Any:
        return self._answer(path)

    def watch(self, path: str, index: int, wait_s: int) -> tuple[Any, int]:
        return self._answer(path), 1

    def post(self, path: str, body: Any = None) -> Any:
        self._answer(path)
        self.counts[body["Job"]["ID"]] = body["Job"]["TaskGroups"][0]["Count"]

    def _answer(self, path: str) -> Any:
        self._asked += 1
        if self._silent(self._asked):
            raise NO_LEADER
        new = 2 - self.counts["model-m-0"]  # there is room for two in all, and nothing takes time
        if "/health/service/" in path:
            return [{"Service": _registration(f"new-{n}")} for n in range(new)]
        if path.endswith("/summary"):
            return {"Summary": {"replica": {"Queued": 2 - new}}}
        if path.endswith("/evaluations"):
            return [{"FailedTGAllocs": {"replica": {"DimensionExhausted": {"memory": 1}}}}]
        if path.endswith("/allocations"):
            kind, count = ("new", new) if "model-m-1" in path else ("old", 2 - new)
            return [_allocation(f"{kind}-{n}") for n in range(count)]
        job = path.rpartition("/")[2]
        return {
            "ID": job,
            "JobModifyIndex": 1,
            "TaskGroups": [{**GROUP, "Count": self.counts.get(job, 0)}],
        }


def _registration(allocation: str) -> dict[str, Any]:
    return {"Meta": {"allocation": allocation}, "Address": "127.0.0.1", "Port": 1}


def _allocation(name: str) -> dict[str, Any]:
    return {
        "ID": name,
        "NodeName": "cpu-0",
        "DesiredStatus": "run",
        "ClientStatus": "running",
        "CreateIndex": 1,
    }


def exchange(cluster: Cluster) -> Exchange:
    new, old = ModelJob("model-m-1", cluster), ModelJob("model-m-0", cluster)
    return Exchange("m", new, ["model-m-all-grpc"], 2, [old], 60, cluster, Gateway(cluster, 0))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("first", range(1, 30))
def test_an_election_at_any_moment_of_an_exchange_is_waited_for(first: int) -> None:
    cluster = Cluster(silent=lambda number: first <= number < first + 4)
    exchange(cluster).run()
    assert cluster.counts == {"model-m-0": 0, "model-m-1": 2}


def test_a_cluster_that_stays_silent_is_given_up_at_the_deadline_with_what_it_said(
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(GivenUpError, match=r"not ready after 60 s: .*No cluster leader"):
        exchange(Cluster(silent=lambda number: number > 12)).run()
    assert 60 < clock.now_s < 80
    assert "model m: GET /v1/job/model-m-1: HTTP 500 No cluster leader" in capsys.readouterr().out


def test_a_nomad_that_fails_while_replicas_are_restored_is_reported_with_what_comes_next() -> None:
    silent = Cluster(silent=lambda _: True)
    old, new = ModelJob("model-m-0", silent), ModelJob("model-m-1", silent)
    gate = Gate("m", STABLE, new, ("model-m-all-openai",), 0, 2, 2, 60, silent, silent, 1)
    assert aftermath(gate, [old], [old], GivenUpError("late")) == (
        f"\nsome replicas may not be restored: {NO_LEADER}; the next run continues"
    )
