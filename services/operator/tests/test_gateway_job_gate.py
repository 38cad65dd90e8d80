"""The gate between two hosts of the gateway: what it waits for, and whom it does not wait for."""

from __future__ import annotations

from typing import Any

import pytest
from gates import gateway_job
from gates.gateway_job import Gate
from program.errors import HostError
from program.http_json import Api, ApiError

JOB, NODE = "envoy-edge-0", "edge-0"
UP = {
    "Name": NODE,
    "Address": "10.77.0.31",
    "Status": "ready",
    "SchedulingEligibility": "eligible",
    "CreateIndex": 7,
}
DOWN = UP | {"Status": "down"}


def allocation(name: str, version: int, **changes: Any) -> dict[str, Any]:
    return {
        "ID": name,
        "JobVersion": version,
        "DesiredStatus": "run",
        "ClientStatus": "running",
    } | changes


def registration(name: str) -> dict[str, Any]:
    return {"Service": {"ID": f"_nomad-task-{name}-group-envoy-envoy-gateway"}}


class Answers(Api):
    """An API that answers by path."""

    def __init__(self, **answers: Any) -> None:
        super().__init__("http://127.0.0.1:1")
        self.answers = answers

    def get(self, path: str) -> Any:
        answer = self.answers[path.rpartition("/")[2].partition("?")[0].replace("-", "_")]
        if isinstance(answer, Exception):
            raise answer
        return answer


OLD, NEW = allocation("old", 1, DesiredStatus="stop"), allocation("new", 2)


def gate(
    *passing: str, nodes: Any = (UP,), allocations: Any = (OLD, NEW), deadline_s: float = 60
) -> Gate:
    nomad = Answers(nodes=list(nodes), envoy_edge_0={"Version": 2}, allocations=list(allocations))
    consul = Answers(envoy=[registration(name) for name in passing])
    return Gate(JOB, "envoy", NODE, deadline_s, nomad=nomad, consul=consul)


def test_it_opens_once_the_allocation_of_the_newest_version_passes_its_checks() -> None:
    assert gateway_job.missing(gate("new")) is None


def test_the_old_envoy_is_not_taken_for_the_new_one() -> None:
    said = gateway_job.missing(gate("old"))
    assert said == "it is running on edge-0, and does not pass its checks yet"


@pytest.mark.parametrize("allocations", [(), (OLD,), (allocation("old", 1),)])
def test_an_envoy_that_was_not_placed_yet_is_waited_for(allocations: Any) -> None:
    assert gateway_job.missing(gate("old", allocations=allocations)) == (
        "Nomad has not placed it on edge-0 yet"
    )


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([DOWN], "is down or gone"),
        ([], "is down or gone"),
        ([UP | {"SchedulingEligibility": "ineligible"}], "takes no work"),
    ],
)
def test_an_envoy_on_a_node_where_nothing_is_placed_is_not_waited_for(
    nodes: Any, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gateway_job.missing(gate(nodes=nodes, allocations=[])) is None
    assert f"edge-0 {reason}; nothing waits for it" in capsys.readouterr().out


def test_an_old_entry_of_a_node_that_registered_again_says_nothing() -> None:
    nodes = [DOWN, UP | {"CreateIndex": 8}]
    assert gateway_job.missing(gate("old", nodes=nodes)) is not None


def test_a_cluster_that_does_not_answer_is_waited_for() -> None:
    silent = gate("new")
    silent.nomad.answers["nodes"] = ApiError("no leader")  # type: ignore[attr-defined]
    assert gateway_job.missing(silent) == "no leader"


def test_an_envoy_that_never_serves_is_named_with_its_log() -> None:
    with pytest.raises(HostError, match=r"(?s)does not pass.*slipway logs envoy-edge-0"):
        gateway_job.apply(gate(deadline_s=0))
