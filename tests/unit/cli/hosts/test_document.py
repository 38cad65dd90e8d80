"""The rows of `slipway hosts`: from the files, the clusters, and the hosts themselves."""

from __future__ import annotations

import datetime
import json
from typing import Any

import jsonschema
from rich.console import Console

from cli.errors import CliError
from cli.hosts.cluster_view import ClusterView
from cli.hosts.document import hosts_document
from cli.hosts.facts import HostFacts
from cli.hosts.troubles import MACHINES
from cli.views.hosts_table import hosts_table
from slipway.plan.platform import PlatformPlan
from tests.components.platform_plan import platform_plan
from tests.unit.plan.samples import ROOT

SCHEMA = json.loads((ROOT / "schemas/hosts.schema.json").read_text())
PLAN = platform_plan()
NODES = [node.name for pool in PLAN.pools for node in pool.hosts]


def consul_member(name: str, **changes: Any) -> dict[str, Any]:
    tags = {"build": f"{PLAN.tools['consul']}:0a1b2c", "role": "node"}
    return {"Name": name, "Addr": "10.0.0.9", "Status": 1, "Tags": tags, **changes}


def nomad_node(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "ID": f"{name}-id",
        "Name": name,
        "Address": "10.0.0.9",
        "NodePool": "cpu",
        "Status": "ready",
        "Version": PLAN.tools["nomad"],
        "Drain": False,
        "SchedulingEligibility": "eligible",
        "CreateIndex": 10,
        **changes,
    }


NOMAD_SERVER = {
    "Name": "server-0.global",
    "Addr": "10.0.0.1",
    "Status": "alive",
    "Tags": {"build": PLAN.tools["nomad"]},
}
FACTS = HostFacts(
    free_bytes=5 * 2**30,
    certificate_ends=datetime.datetime(2027, 11, 25, tzinfo=datetime.UTC),
    inactive_units={},
)


def view(*nodes: dict[str, Any], members: list[dict[str, Any]] | None = None) -> ClusterView:
    names = ["server-0", *NODES]
    return ClusterView(
        consul_members=[consul_member(name) for name in names] if members is None else members,
        nomad_servers=[NOMAD_SERVER],
        nomad_nodes=nodes or [nomad_node(name) for name in NODES],
    )


def rows(view: ClusterView, plan: PlatformPlan = PLAN, **facts: Any) -> dict[str, dict[str, Any]]:
    document = hosts_document(plan, view, facts, MACHINES)
    jsonschema.validate(document, SCHEMA)
    return {row["name"]: row for row in document["hosts"]}


def test_every_host_of_the_file_has_a_row_servers_first() -> None:
    found = rows(view())
    assert list(found) == ["server-0", *NODES]
    assert found["server-0"]["takes_work"] is None
    assert found["server-0"]["nomad"] == {"state": "alive", "version": PLAN.tools["nomad"]}
    assert found[NODES[0]]["takes_work"] == "yes"


def test_a_host_that_joined_nothing_is_a_row_too() -> None:
    found = rows(view(nomad_node(NODES[0]), members=[]))
    assert found[NODES[1]]["nomad"] == {"state": "not joined", "version": ""}
    assert found[NODES[1]]["consul"] == {"state": "not joined", "version": ""}
    assert found[NODES[1]]["planned_instead"] == {}


def test_draining_is_told_from_drained_and_a_newer_entry_from_an_older_one() -> None:
    draining = nomad_node(NODES[0], Drain=True, SchedulingEligibility="ineligible")
    drained = nomad_node(NODES[1], SchedulingEligibility="ineligible")
    before = nomad_node(NODES[1], Status="down", CreateIndex=99)
    found = rows(view(draining, drained, before))
    assert (found[NODES[0]]["takes_work"], found[NODES[1]]["takes_work"]) == ("draining", "no")
    assert found[NODES[1]]["nomad"]["state"] == "ready"


def test_devices_with_a_fault_are_shown_with_their_reasons() -> None:
    instances = [
        {"ID": "GPU-1", "Healthy": True, "HealthDescription": ""},
        {"ID": "GPU-2", "Healthy": False, "HealthDescription": "XID 48: …"},
    ]
    resources = {"Devices": [{"Vendor": "nvidia", "Instances": instances}]}
    found = rows(view(nomad_node(NODES[0], NodeResources=resources)))
    assert found[NODES[0]]["unhealthy_devices"] == {"GPU-2": "XID 48: …"}
    assert found["server-0"]["unhealthy_devices"] is None


def test_an_agent_of_another_version_is_shown_with_the_planned_one() -> None:
    found = rows(view(nomad_node(NODES[0], Version="1.10.0")))
    assert found[NODES[0]]["planned_instead"] == {"nomad": PLAN.tools["nomad"]}


def test_a_host_that_only_the_clusters_know_comes_last_unless_it_has_left() -> None:
    gone = [consul_member("left-0", Status=3), consul_member("racks-7", Status=4)]
    found = rows(view(members=gone))
    assert list(found)[-1] == "racks-7"
    assert not found["racks-7"]["in_file"]
    assert found["racks-7"]["consul"]["state"] == "failed"
    shown = printed(hosts_document(PLAN, view(members=gone), {}, MACHINES))
    assert f"racks-7 is not in the files of {PLAN.environment}: " in shown


def test_without_clusters_the_hosts_still_say_what_they_have() -> None:
    silent = ClusterView(
        consul_members=None,
        nomad_servers=None,
        nomad_nodes=None,
        unreachable={"consul": "refused", "nomad": "refused"},
    )
    error = CliError("cpu-1 (10.0.0.9) cannot be reached over SSH: no route", fix="start cpu-1")
    document = hosts_document(PLAN, silent, {"cpu-0": FACTS, "cpu-1": error}, MACHINES)
    jsonschema.validate(document, SCHEMA)
    found = {row["name"]: row for row in document["hosts"]}
    assert found["cpu-0"]["consul"] is None
    assert found["cpu-0"]["certificate_ends"].startswith("2027-11-25")
    assert found["cpu-1"]["not_reached"] == {"reason": error.message, "fix": "start cpu-1"}
    shown = printed(document)
    assert "nomad does not answer: refused" in shown
    assert "fix: start cpu-1" in shown
    assert "not reached" in shown


def test_the_table_marks_what_needs_a_look() -> None:
    facts = HostFacts(
        free_bytes=2**30, certificate_ends=None, inactive_units={"nomad": "activating"}
    )
    document = hosts_document(
        PLAN, view(nomad_node("cpu-0", Version="1.10.0")), {"cpu-0": facts}, MACHINES
    )
    shown = printed(document)
    assert f"nomad 1.10.0 (plan: {PLAN.tools['nomad']})" in shown
    assert "nomad activating" in shown
    assert "1.0 GiB" in shown


def printed(document: dict[str, Any]) -> str:
    console = Console(width=220)
    with console.capture() as capture:
        console.print(hosts_table(document))
    return capture.get()
