"""Several Envoys change one after the other, and each gives the shared address away first."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from components.gateway.job_gate import job_gate_document
from components.gateway.jobs import envoy_job, xds_job
from components.gateway.shared_address import shared_address_job
from components.nomad.jobspec import Job
from slipway.plan.platform import EnvoyPlan, PlatformPlan
from stacks.platform import Platform
from stacks.recording import Recording
from stacks.targets import load
from tests.components.platform_plan import POOLS, platform_plan
from tests.components.recording import record
from tests.unit.plan.samples import ROOT

SCHEMA = json.loads((ROOT / "schemas/gateway-job-gate.schema.json").read_text())
THREE_EDGES = {**POOLS, "edge": {**POOLS["edge"], "nodes": 3}}
JobOf = Callable[[PlatformPlan, EnvoyPlan], Job]
FIRST, SECOND, THIRD = "envoy-edge-0", "envoy-edge-1", "envoy-edge-2"


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return on_every_edge(platform_plan(simulated=(), pools=THREE_EDGES))


def on_every_edge(plan: PlatformPlan) -> PlatformPlan:
    """With an Envoy on each host of the gateway's pool, as hosts that are machines have."""
    (only,) = plan.gateway.envoys
    envoys = tuple(
        dataclasses.replace(
            only,
            name=f"envoy-{node.name}",
            xds_name=f"xds-{node.name}",
            node=node.name,
            listener=only.listener.at(node.address),
        )
        for node in plan.pool(only.pool).hosts
    )
    return dataclasses.replace(plan, gateway=dataclasses.replace(plan.gateway, envoys=envoys))


@pytest.fixture(scope="module")
def recording(plan: PlatformPlan) -> Recording:
    return record(lambda: Platform("platform", plan, load(plan.target)))


@pytest.mark.parametrize(("earlier", "later"), [(FIRST, SECOND), (SECOND, THIRD)])
def test_an_envoy_changes_once_the_one_before_it_serves(
    recording: Recording, earlier: str, later: str
) -> None:
    gate = f"{earlier}-serves"
    assert earlier in recording[gate].depends_on
    assert gate in recording[later].depends_on


def test_nobody_waits_for_the_last_envoy(recording: Recording) -> None:
    assert f"{THIRD}-serves" not in recording.tree()


def test_one_envoy_alone_has_no_gate() -> None:
    alone = platform_plan(simulated=())
    tree = record(lambda: Platform("platform", alone, load(alone.target))).tree()
    assert "envoy" in tree
    assert not [name for name in tree if name.endswith("-serves")]


@pytest.fixture(scope="module")
def sharing(plan: PlatformPlan) -> PlatformPlan:
    gateway = dataclasses.replace(plan.gateway, shared_address="127.77.0.99")
    return dataclasses.replace(plan, gateway=gateway)


@pytest.fixture(scope="module")
def sharing_recording(sharing: PlatformPlan) -> Recording:
    return record(lambda: Platform("platform", sharing, load(sharing.target)))


def test_a_host_gives_the_shared_address_away_before_its_envoy_changes(
    sharing_recording: Recording,
) -> None:
    for envoy in (FIRST, SECOND, THIRD):
        assert f"{envoy}-address" in sharing_recording[envoy].depends_on


@pytest.mark.parametrize(("earlier", "later"), [(FIRST, SECOND), (SECOND, THIRD)])
def test_hosts_give_the_shared_address_away_one_after_the_other(
    sharing_recording: Recording, earlier: str, later: str
) -> None:
    assert f"{earlier}-serves" in sharing_recording[f"{later}-address"].depends_on


@pytest.mark.parametrize(("earlier", "later"), [(FIRST, SECOND), (SECOND, THIRD)])
def test_a_host_can_take_the_shared_address_before_the_next_one_gives_it_away(
    sharing_recording: Recording, recording: Recording, earlier: str, later: str
) -> None:
    gate = f"{earlier}-address-serves"
    assert f"{earlier}-serves" in sharing_recording[gate].depends_on  # keepalived looks at Envoy
    assert gate in sharing_recording[f"{later}-address"].depends_on
    assert gate not in recording.tree()


def test_another_host_of_the_gateway_makes_the_gates_of_keepalived_alone_run_again(
    sharing: PlatformPlan,
) -> None:
    fewer = dataclasses.replace(sharing.gateway, envoys=sharing.gateway.envoys[:2])
    shrunk = dataclasses.replace(sharing, gateway=fewer)
    assert document(shrunk, shared_address_job) != document(sharing, shared_address_job)
    assert document(shrunk) == document(sharing)


def test_an_envoy_has_the_sockets_of_its_new_control_plane_before_the_address_moves(
    sharing_recording: Recording, recording: Recording
) -> None:
    for host in ("edge-0", "edge-1", "edge-2"):
        gate = f"xds-{host}-serves"
        assert f"xds-{host}" in sharing_recording[gate].depends_on
        assert gate in sharing_recording[f"envoy-{host}-address"].depends_on
        assert gate not in recording.tree()


def document(plan: PlatformPlan, job_of: JobOf = envoy_job) -> dict[str, Any]:
    first = plan.gateway.envoys[0]
    made = job_gate_document(plan, first, job_of(plan, first))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    return made


def test_the_gate_waits_for_the_envoy_on_its_node(plan: PlatformPlan) -> None:
    made = document(plan)
    assert (made["job"], made["node"], made["service"]) == (FIRST, "edge-0", "envoy")


def test_the_gate_of_a_control_plane_waits_for_it(plan: PlatformPlan) -> None:
    made = document(plan, xds_job)
    assert (made["job"], made["node"], made["service"]) == ("xds-edge-0", "edge-0", "xds")


def test_the_gate_of_keepalived_waits_for_it(sharing: PlatformPlan) -> None:
    made = document(sharing, shared_address_job)
    assert (made["job"], made["service"]) == (f"{FIRST}-address", "gateway-address")


def test_a_changed_envoy_makes_its_gate_run_again(plan: PlatformPlan) -> None:
    changed = dataclasses.replace(plan, tools={**plan.tools, "envoy": "1.41.0"})
    assert document(changed)["changes"] != document(plan)["changes"]
    again = on_every_edge(platform_plan(simulated=(), pools=THREE_EDGES))
    assert document(again) == document(plan)


def tasks(plan: PlatformPlan) -> dict[str, Any]:
    job = envoy_job(plan, plan.gateway.envoys[0]).render()["Job"]
    return {task["Name"]: task for task in job["TaskGroups"][0]["Tasks"]}


def test_an_envoy_that_is_to_end_goes_on_while_its_host_gives_the_shared_address_away(
    sharing: PlatformPlan,
) -> None:
    found = tasks(sharing)
    assert set(found) == {"envoy", "hand-over"}
    assert found["envoy"]["ShutdownDelay"] > 0
    assert "ShutdownDelay" not in found["hand-over"]
    # Nomad ends a task with a lifecycle after the others: too late to give anything away.
    assert "Lifecycle" not in found["hand-over"]


def test_without_a_shared_address_envoy_ends_at_once(plan: PlatformPlan) -> None:
    found = tasks(plan)
    assert set(found) == {"envoy"}
    assert "ShutdownDelay" not in found["envoy"]
