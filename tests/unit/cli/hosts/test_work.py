"""Draining a node and giving it work again, as Nomad is asked to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.clusters.nomad import Nomad
from cli.errors import CliError, InterruptedRunError
from cli.hosts import work
from components.node_pool.node_document import drain_timeout_s
from tests.components.platform_plan import platform_plan
from tests.unit.cli.conftest import Serve, Server
from tests.unit.cli.hosts.test_document import nomad_node

PLAN = platform_plan()
ALLOCATIONS = "GET /v1/node/cpu-0-id/allocations"
DRAIN = "POST /v1/node/cpu-0-id/drain"
Cluster = Callable[..., tuple[Nomad, Server]]


@pytest.fixture
def cluster(serve: Serve) -> Cluster:
    """A Nomad with the node cpu-0, on which these allocations run."""

    def start(*running: str, **node: Any) -> tuple[Nomad, Server]:
        allocations = [{"Name": name, "ClientStatus": "running"} for name in running]
        ended = [{"Name": "old", "ClientStatus": "complete"}]
        server = serve(
            {
                "GET /v1/nodes": (200, [nomad_node("cpu-0", **node)]),
                ALLOCATIONS: (200, [*allocations, *ended]),
                DRAIN: (200, {}),
            }
        )
        return Nomad.of_any([server.address], None, Path()), server

    return start


def posted(server: Server) -> list[dict[str, Any]]:
    pairs = zip(server.asked, server.bodies, strict=True)
    return [json.loads(body) for asked, body in pairs if asked == DRAIN]


def test_a_drain_has_the_platforms_deadline_and_leaves_the_node_without_work(
    cluster: Cluster,
) -> None:
    nomad, server = cluster()
    work.drain(nomad, PLAN, "cpu-0")
    (asked,) = posted(server)
    assert asked["DrainSpec"]["Deadline"] == drain_timeout_s(PLAN, PLAN.pool("cpu")) * 10**9
    assert asked["MarkEligible"] is False


def test_a_drain_that_has_begun_is_not_begun_again(cluster: Cluster) -> None:
    nomad, server = cluster(Drain=True, SchedulingEligibility="ineligible")
    work.drain(nomad, PLAN, "cpu-0")
    assert posted(server) == []


def test_a_drained_node_is_left_alone(cluster: Cluster) -> None:
    nomad, server = cluster(SchedulingEligibility="ineligible")
    work.drain(nomad, PLAN, "cpu-0")
    assert posted(server) == []


def test_what_still_runs_is_shown_and_ctrl_c_says_that_the_drain_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nomad, _ = cluster("model-a.replica[0]")
    asked: list[int] = []
    ask = nomad.watch_node

    def interrupted_at_the_second(node: str, index: int, wait_s: int) -> tuple[list[str], int]:
        asked.append(index)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return ask(node, index, wait_s)

    monkeypatch.setattr(nomad, "watch_node", interrupted_at_the_second)
    with pytest.raises(InterruptedRunError, match="cpu-0 goes on draining") as interrupted:
        work.drain(nomad, PLAN, "cpu-0")
    assert "slipway return cpu-0 -s dev gives it work again" in interrupted.value.fix
    assert "1 still run (0 s): model-a.replica[0]" in capsys.readouterr().err


def test_a_node_is_given_work_again_once(cluster: Cluster) -> None:
    nomad, server = cluster(Drain=True, SchedulingEligibility="ineligible")
    work.give_work(nomad, PLAN, "cpu-0")
    assert posted(server) == [{"DrainSpec": None, "MarkEligible": True}]
    nomad, server = cluster()
    work.give_work(nomad, PLAN, "cpu-0")
    assert posted(server) == []


@pytest.mark.parametrize(
    ("host", "code", "said"),
    [
        ("server-0", 2, "no replica runs there"),
        ("nowhere", 2, 'has no host "nowhere"'),
        ("cpu-1", 1, "Nomad does not know it"),
    ],
)
def test_a_host_without_a_node_is_refused_with_the_reason(
    cluster: Cluster, host: str, code: int, said: str
) -> None:
    nomad, _ = cluster()
    for asked in (work.drain, work.give_work):
        with pytest.raises(CliError, match=said) as refused:
            asked(nomad, PLAN, host)
        assert refused.value.exit_code == code
        assert refused.value.fix
