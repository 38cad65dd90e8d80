from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.app import app
from cli.applied import Applied, from_document
from cli.clusters.snapshot import take_snapshot
from cli.environment import Environment
from cli.hosts.troubles import HERE, MACHINES
from cli.lifecycle.fleet.lifecycle import FleetLifecycle
from cli.views.status_table import status_table
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document, status_document
from tests.unit.cli.protocols.test_protocols import put_plan

NOMAD = {
    "GET /v1/nodes": (
        200,
        [
            {
                "ID": "n0",
                "Name": "cpu-0",
                "NodePool": "cpu",
                "Address": f"{NETWORK}.16",
                "Status": "ready",
                "SchedulingEligibility": "eligible",
                "Drain": False,
                "Version": "1.11.3",
                "CreateIndex": 1,
            }
        ],
    ),
    "GET /v1/node/n0": (
        200,
        {"NodePool": "cpu", "Meta": {}},
    ),  # asked for where a condition holds: here, always
    "GET /v1/agent/members": (200, {"Members": []}),
    "GET /v1/jobs": (
        200,
        [
            {
                "ID": "envoy",
                "Stop": False,
                "Status": "running",
                "JobSummary": {"Summary": {"envoy": {"Running": 1, "Starting": 0, "Queued": 2}}},
            }
        ],
    ),
    "GET /v1/allocations": (
        200,
        [
            {
                "ID": "0123456789abcdef",
                "JobID": "envoy",
                "Name": "envoy.envoy[0]",
                "NodeName": "edge-0",
                "ClientStatus": "running",
                "DesiredStatus": "run",
                "TaskStates": {
                    "envoy": {
                        "Restarts": 1,
                        "Events": [
                            {"Time": 2, "DisplayMessage": "Started"},
                            {"Time": 1, "DisplayMessage": "Received"},
                        ],
                    }
                },
            },
            {
                "ID": "gone",
                "JobID": "envoy",
                "Name": "envoy.envoy[0]",
                "NodeName": "edge-0",
                "ClientStatus": "complete",
                "DesiredStatus": "stop",
                "TaskStates": None,
            },
        ],
    ),
}
XDS = {
    "GET /status": (200, status_document({"smollm2": {}})),
}
ENVOY = {
    "GET /clusters": (
        200,
        {
            "cluster_statuses": [
                {
                    "name": "model-smollm2-3f9c1a-openai",
                    "host_statuses": [
                        {
                            "address": {
                                "socket_address": {"address": f"{NETWORK}.16", "port_value": 20001}
                            },
                            "health_status": {"eds_health_status": "HEALTHY"},
                            "stats": [{"name": "rq_active", "value": "3"}, {"name": "cx_active"}],
                        },
                        {
                            "address": {
                                "socket_address": {"address": f"{NETWORK}.17", "port_value": 20001}
                            },
                            "health_status": {
                                "eds_health_status": "HEALTHY",
                                "failed_active_health_check": True,
                            },
                        },
                    ],
                },
                {"name": "empty"},
                {
                    "name": "admin",
                    "host_statuses": [
                        {
                            "address": {"pipe": {"path": "admin.sock"}},
                            "health_status": {"eds_health_status": "HEALTHY"},
                            "stats": [{"name": "rq_active", "value": "1"}],
                        }
                    ],
                },
            ]
        },
    ),
}
PROMETHEUS = {
    "GET /api/v1/targets": (
        200,
        {
            "data": {
                "activeTargets": [
                    {
                        "labels": {"job": "services", "service": "xds-http"},
                        "scrapeUrl": f"http://{NETWORK}.32:18001/metrics",
                        "health": "down",
                        "lastError": "refused",
                    },
                    {
                        "labels": {"job": "prometheus"},
                        "scrapeUrl": f"http://{NETWORK}.32:9090/metrics",
                        "health": "up",
                    },
                ]
            }
        },
    ),
}


@pytest.fixture
def applied(serve: Serve) -> Applied:
    """A platform of stand-ins: each part answers at its own address."""
    serve(NOMAD, address=f"{NETWORK}.2", port=4646)
    serve({**XDS, **ENVOY, **PROMETHEUS}, address=f"{NETWORK}.32", port=18001)
    document = plan_document(envoy_metrics=f"{NETWORK}.32:18001")
    document["monitoring"]["prometheus"]["port"] = 18001
    return from_document(document)


def test_the_document_has_what_every_part_knows(environment: Environment, applied: Applied) -> None:
    document = take_snapshot(environment, applied, HERE)
    assert document["running"] is True
    assert document["unreachable"] == {}
    assert document["models"] == {
        "sim-a": {"ready": False, "acknowledged": False},
        "smollm2": {"ready": True, "acknowledged": True},
    }
    assert document["nodes"][0]["name"] == "cpu-0"
    assert document["jobs"] == [{"id": "envoy", "status": "running", "running": 1, "waiting": 2}]
    (replica,) = document["replicas"]
    assert (replica["allocation"], replica["restarts"], replica["said"]) == (
        "0123456789abcdef",
        1,
        "Started",
    )
    assert [(e["address"], e["healthy"], e["active_requests"]) for e in document["endpoints"]] == [
        (f"{NETWORK}.16:20001", True, 3),
        (f"{NETWORK}.17:20001", False, 0),
    ]
    assert [(t["service"], t["up"]) for t in document["targets"]] == [
        ("prometheus", True),
        ("xds-http", False),
    ]


def test_the_table_shows_every_part_and_takes_no_text_for_markup(
    environment: Environment, applied: Applied
) -> None:
    document = take_snapshot(environment, applied, HERE)
    shown = rendered(document)
    for text in (
        "envoy.envoy[0]",
        f"{NETWORK}.16:20001",
        "Started",
        "xds-http",
        "cpu-0",
        "refused",
    ):
        assert text in shown


GROUPS = "model-smollm2-3f9c1a"


def member(index: int, host: int, *, port: int, **changes: Any) -> dict[str, Any]:
    return {
        "ID": f"member-{index}",
        "JobID": GROUPS,
        "Name": f"{GROUPS}.replica[{index}]",
        "NodeName": f"cpu-{host}",
        "ClientStatus": "running",
        "DesiredStatus": "run",
        "TaskStates": None,
        "AllocatedResources": {"Shared": {"Ports": [{"Label": "openai", "Value": port}]}},
        **changes,
    }


def of_groups(wanted: int, *members: dict[str, Any]) -> dict[str, Any]:
    """Nomad's answers for a model whose replicas have two hosts each."""
    _, (node,) = NOMAD["GET /v1/nodes"]
    hosts = [{**node, "Name": f"cpu-{k}", "Address": f"{NETWORK}.{16 + k}"} for k in range(6)]
    _, (job,) = NOMAD["GET /v1/jobs"]
    mine = {**job, "ID": GROUPS, "Meta": {"slipway_members": "2"}}
    return NOMAD | {
        "GET /v1/nodes": (200, hosts),
        "GET /v1/jobs": (200, [job, mine]),
        "GET /v1/allocations": (200, list(members)),
        f"GET /v1/job/{GROUPS}/scale": (200, {"TaskGroups": {"replica": {"Desired": wanted}}}),
    }


def test_replicas_over_several_hosts_are_counted_as_such_and_who_is_missing_is_named(
    environment: Environment, applied: Applied, serve: Serve
) -> None:
    nomad = of_groups(
        6,
        member(0, 0, port=20001),
        member(1, 2, port=20001),
        member(2, 1, port=20001),  # Envoy found that it does not answer
        member(3, 3, port=20001, ClientStatus="failed"),
        member(5, 4, port=20001),
        member(9, 5, port=20001, DesiredStatus="stop"),
    )
    serve(nomad, address=f"{NETWORK}.2", port=4647)
    there = dataclasses.replace(applied, nomad=f"http://{NETWORK}.2:4647")
    document = take_snapshot(environment, there, HERE)
    assert document["groups"] == [
        {
            "job": GROUPS,
            "number": 0,
            "wanted": True,
            "hosts": ["cpu-0", "cpu-2"],
            "missing": [],
            "serves": True,
        },
        {
            "job": GROUPS,
            "number": 1,
            "wanted": True,
            "hosts": ["cpu-1", "cpu-3"],
            "missing": [{"rank": 1, "said": "is failed on cpu-3"}],
            "serves": False,
        },
        {
            "job": GROUPS,
            "number": 2,
            "wanted": True,
            "hosts": [None, "cpu-4"],
            "missing": [{"rank": 0, "said": "has no host"}],
            "serves": False,
        },
    ]
    shown = " ".join(rendered(document).split())
    assert (
        f"{GROUPS} 2 1 3 replica 1: rank 1 is failed on cpu-3; replica 2: rank 0 has no host"
        in shown
    )


def test_a_member_that_runs_beyond_the_count_is_named(
    environment: Environment, serve: Serve
) -> None:
    nomad = of_groups(2, member(0, 0, port=20001), member(2, 2, port=20001))
    serve(nomad, address=f"{NETWORK}.2", port=4646)
    document = take_snapshot(environment, from_document(plan_document()), HERE)
    shown = " ".join(rendered(document).split())
    assert (
        f"{GROUPS} 2 ? 1 replica 0: rank 1 has no host; replica 1, beyond the count: rank 1 has no"
        f" host; nomad job scale {GROUPS} 4 mends it" in shown
    )


def test_without_an_answer_of_envoy_nobody_knows_which_groups_serve(
    environment: Environment, serve: Serve
) -> None:
    nomad = of_groups(2, member(0, 0, port=20001), member(1, 2, port=20001))
    serve(nomad, address=f"{NETWORK}.2", port=4646)
    document = take_snapshot(environment, from_document(plan_document()), HERE)
    assert [group["serves"] for group in document["groups"]] == [None]
    assert f"{GROUPS} 2 ? 1" in " ".join(rendered(document).split())


def test_models_on_one_host_have_no_line_of_groups(
    environment: Environment, applied: Applied
) -> None:
    document = take_snapshot(environment, applied, HERE)
    assert document["groups"] == []
    assert "replicas over several hosts" not in rendered(document)


def test_a_node_that_is_down_and_one_that_has_not_joined_are_named_with_what_mends_them(
    environment: Environment, serve: Serve
) -> None:
    _, (node,) = NOMAD["GET /v1/nodes"]
    down = {"GET /v1/nodes": (200, [{**node, "Status": "down"}])}
    server = {"Name": "server-2.global", "Addr": "", "Status": "failed", "Tags": {}}
    members = {"GET /v1/agent/members": (200, {"Members": [server]})}
    serve({**NOMAD, **down, **members}, address=f"{NETWORK}.2", port=4646)
    plan = plan_document()
    nodes = [{"name": f"cpu-{k}", "pool": "cpu", "address": f"{NETWORK}.{16 + k}"} for k in (0, 1)]
    plan["pools"] = [{"name": "cpu", "hosts": nodes}]
    document = take_snapshot(environment, from_document(plan), MACHINES)
    name = document["environment"]
    assert [(each["host"], each["what"]) for each in document["troubles"]] == [
        ("server-2", "is down: Nomad does not hear it"),
        ("cpu-0", "is down: Nomad does not hear it"),
        ("cpu-1", "has not joined: Nomad does not hear it"),
    ]
    shown = " ".join(rendered(document).split())
    assert f"slipway forget cpu-0 -s {name} --yes" in shown
    assert f"slipway admit cpu-1 -s {name}" in shown


@pytest.mark.parametrize("groups", [True, False])
def test_a_node_whose_fabric_failed_is_named_while_its_pool_has_groups(
    environment: Environment, serve: Serve, groups: bool
) -> None:
    details = {"reason": "eth0: is down", "fix": "look at the cable", "peer": "", "unit": ""}
    figures = {"figure": None, "threshold": None, "request": ""}
    meta = {
        "fabric": "failed",
        "fabric_members": "no",
        "unique.fabric.report": json.dumps({**details, **figures}),
    }
    failed = {"GET /v1/node/n0": (200, {"NodePool": "cpu", "Meta": meta})}
    _, listed = NOMAD["GET /v1/jobs"]
    check = {"ID": "fabric-check-cpu", "Stop": not groups, "Status": "running"}
    jobs = {"GET /v1/jobs": (200, [*listed, check])}
    serve({**NOMAD, **failed, **jobs}, address=f"{NETWORK}.2", port=4646)
    plan = plan_document()
    nodes = [{"name": "cpu-0", "pool": "cpu", "address": f"{NETWORK}.16"}]
    plan["pools"] = [{"name": "cpu", "hosts": nodes}]
    document = take_snapshot(environment, from_document(plan), HERE)
    said = "takes no members of groups until the check of its fabric passes: eth0: is down"
    assert [each["what"] for each in document["troubles"]] == ([said] if groups else [])
    assert ("look at the cable; slipway check cpu-0" in rendered(document)) == groups


def test_a_part_that_does_not_answer_is_named_and_the_rest_is_shown(
    environment: Environment, serve: Serve
) -> None:
    serve({**XDS}, address=f"{NETWORK}.32", port=18001)
    document = take_snapshot(environment, from_document(plan_document()), HERE)
    assert document["running"] is False
    assert set(document["unreachable"]) == {"nomad", "envoy", "prometheus"}
    assert document["models"]["smollm2"]["ready"] is True
    shown = rendered(document)
    assert "stopped" in shown
    assert "prometheus does not answer" in shown


def test_another_envoy_is_asked_where_the_first_does_not_answer(
    environment: Environment, serve: Serve
) -> None:
    serve({**XDS, **ENVOY}, address=f"{NETWORK}.33", port=18001)
    plan = plan_document(envoy_metrics=f"{NETWORK}.32:18001")
    (dead,) = plan["gateway"]["envoys"]
    lives = {name: {**place, "host": f"{NETWORK}.33"} for name, place in dead.items()}
    plan["gateway"]["envoys"] = [dead, lives]
    document = take_snapshot(environment, from_document(plan), HERE)
    assert set(document["unreachable"]) == {"nomad", "prometheus"}
    assert document["models"]["smollm2"]["ready"] is True
    assert len(document["endpoints"]) == 2


FIRST, SECOND = f"http://{NETWORK}.32:9901", f"http://{NETWORK}.33:9901"


def scraped(address: str, error: str = "", service: str = "envoy-metrics") -> dict[str, Any]:
    return {
        "labels": {"service": service},
        "scrapeUrl": address,
        "health": "down" if error else "up",
        "lastError": error,
    }


@pytest.mark.parametrize(
    ("envoys", "targets", "reason"),
    [
        (1, [scraped(FIRST)], ""),
        (2, [scraped(FIRST), scraped(SECOND)], ""),
        (1, [scraped(FIRST), scraped(SECOND, "refused")], ""),  # an entry that Consul still has
        (1, [], "0 of 1 Envoys are in Consul"),
        (1, [scraped(FIRST, service="envoy-admin")], ""),  # of a platform of before
        (1, [scraped(FIRST, service="xds-http")], "0 of 1 Envoys are in Consul"),
        (2, [scraped(FIRST)], "1 of 2 Envoys are in Consul"),
        (2, [scraped(FIRST), scraped(SECOND, "refused")], f"{SECOND}: refused"),
        (2, [scraped(FIRST, "timeout")], f"1 of 2 Envoys are in Consul; {FIRST}: timeout"),
    ],
    # Not the addresses, which differ between the tests' workers.
    ids=["one", "both", "stale", "none", "before", "other", "missing", "down", "both bad"],
)
def test_the_autoscaler_is_blind_without_the_statistics_of_every_envoy(
    environment: Environment,
    serve: Serve,
    envoys: int,
    targets: list[dict[str, Any]],
    reason: str,
) -> None:
    serve(NOMAD, address=f"{NETWORK}.2", port=4646)
    replies = {"GET /api/v1/targets": (200, {"data": {"activeTargets": targets}})}
    serve(replies, address=f"{NETWORK}.32", port=9090)
    document = plan_document()
    document["gateway"]["envoys"] *= envoys
    snapshot = take_snapshot(environment, from_document(document), HERE)
    said = f"Prometheus cannot read Envoy's statistics: {reason}" if reason else ""
    assert snapshot["autoscaler_blind"] == said
    line = f"the autoscaler cannot see the load, so all counts stay as they are: {said}"
    assert (line in rendered(snapshot)) == bool(reason)


def test_the_autoscaler_is_blind_while_prometheus_does_not_answer(
    environment: Environment, serve: Serve
) -> None:
    serve(NOMAD, address=f"{NETWORK}.2", port=4646)
    snapshot = take_snapshot(environment, from_document(plan_document()), HERE)
    assert snapshot["autoscaler_blind"].startswith("Prometheus does not answer: ")
    assert "the autoscaler cannot see the load" in rendered(snapshot)
    stopped = {**snapshot, "running": False}
    assert "the autoscaler cannot see the load" not in rendered(stopped)


def test_status_of_a_stopped_environment_is_an_answer_not_a_failure(
    runner: CliRunner, checkout: Path
) -> None:
    put_plan(checkout, plan_document())
    result = runner.invoke(app, ["status", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["running"] is False
    assert "slipway start -s dev" in runner.invoke(app, ["status"]).stdout


def test_the_status_of_a_fleet_that_does_not_answer_names_a_command_for_fleets(
    runner: CliRunner, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied / "known_hosts").write_text("10.77.0.11 ssh-ed25519 AAAAC3Nz\n")
    monkeypatch.setattr(FleetLifecycle, "reaching", lambda *_: nullcontext({}))
    shown = runner.invoke(app, ["status", "-s", "hosts"])
    assert shown.exit_code == 0, shown.stderr
    assert "hosts: Nomad does not answer   (slipway hosts -s hosts shows" in shown.stdout
    assert "slipway start" not in shown.stdout


def rendered(document: dict[str, Any]) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_table(document, "stopped"))
    return captured.get()
