"""When servers count as lost, and what Pulumi is told to set up again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.clusters.both import Clusters
from cli.clusters.consul import Consul
from cli.clusters.nomad import Nomad
from cli.errors import CliError
from cli.hosts.over_ssh import UnreachableError
from cli.pulumi.host_repairs import machines, of_servers, removals, with_applied_again
from cli.snapshots import restoring
from cli.snapshots.restoring import (
    Standing,
    end_the_snapshots_run,
    to_be_emptied,
    wait_for_machines,
)
from tests.unit.cli.conftest import Serve

PLATFORM = "urn:pulumi:hosts::slipway::slipway:index:Platform$"
SERVERS = ["server-0", "server-1"]


def command(name: str) -> dict[str, Any]:
    kind = "command:remote:Command"
    programs = {"create": f"apply {name}", "delete": f"remove {name}"}
    return {
        "type": kind,
        "urn": f"{PLATFORM}{kind}::{name}",
        "inputs": programs,
        "outputs": {**programs, "stdout": ""},
    }


AGAIN = [
    *(f"{kind}-{server}" for server in SERVERS for kind in ("delivery", "consul", "nomad")),
    "consul-acl",
    "nomad-acl",
    "operator-access",
]
OTHERS = [
    "delivery-worker-0",
    "node-worker-0",
    "nomad-workloads",
    "pool-cpu-ready",
    "consul-server-01",
]
SEED = {"type": "random:index/randomPassword:RandomPassword", "urn": f"{PLATFORM}x::consul-seed"}
STATE = json.dumps(
    {"version": 3, "deployment": {"resources": [SEED, *map(command, [*AGAIN, *OTHERS])]}}
)


def standing(*, led: bool, jobs: int = 0, with_data: tuple[str, ...] = ()) -> Standing:
    return Standing(led=led, jobs=jobs, with_data=with_data)


@pytest.mark.parametrize("force", [False, True])
def test_lost_servers_and_those_of_an_earlier_attempt_are_restored(force: bool) -> None:
    lost, empty = standing(led=False), standing(led=True, with_data=("server-0",))
    assert not to_be_emptied(lost, "hosts", force=force)
    assert not to_be_emptied(empty, "hosts", force=force)


def test_clusters_that_are_well_are_restored_only_if_forced_and_stay_in_place() -> None:
    well = standing(led=True, jobs=5, with_data=("server-0", "server-1"))
    with pytest.raises(CliError, match=r"are well.*5 jobs"):
        to_be_emptied(well, "hosts", force=False)
    assert not to_be_emptied(well, "hosts", force=True)


def test_a_survivor_without_a_leader_is_emptied_only_if_forced() -> None:
    survived = standing(led=False, with_data=("server-1",))
    with pytest.raises(CliError, match="server-1 still have data") as refused:
        to_be_emptied(survived, "hosts", force=False)
    assert "lost-quorum.md" in refused.value.fix
    assert to_be_emptied(survived, "hosts", force=True) == ("server-1",)


def test_exactly_the_servers_and_what_lets_them_start_are_set_up_again() -> None:
    found = of_servers(STATE, SERVERS)
    assert set(found) == set(AGAIN)
    changed = json.loads(with_applied_again(STATE, found))["deployment"]["resources"]
    before = json.loads(STATE)["deployment"]["resources"]
    assert changed[0] == before[0]
    again = {
        each["urn"].rpartition("::")[2]
        for each in changed
        if each.get("inputs", {}).get("create") == ""
    }
    assert again == set(AGAIN)
    assert all(each["inputs"]["delete"] for each in changed[1:]), "a removal must still work"


def test_the_machines_of_servers_are_named_where_the_state_has_them() -> None:
    kind = "aws:ec2/instance:Instance"
    hosts = ("server-0", "server-1", "server-10", "edge-0")
    made = [{"type": kind, "urn": f"{PLATFORM}{kind}::host-{host}"} for host in hosts]
    state = json.dumps({"version": 3, "deployment": {"resources": made}})
    assert machines(state, SERVERS) == [each["urn"] for each in made[:2]]
    assert machines(STATE, SERVERS) == []


class Booting:
    """Servers that answer after some looks at each."""

    def __init__(self, looks: int) -> None:
        self.looks = dict.fromkeys(SERVERS, looks)

    def ask(self, host: str, way: Any, command: str, *, within_s: float) -> str:
        self.looks[host] -= 1
        if self.looks[host] >= 0:
            raise UnreachableError(f"{host}: Host key verification failed", fix="x")
        return ""


@pytest.fixture
def booting_plan(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(restoring, "known_way", lambda *_: {})
    monkeypatch.setattr(restoring, "BETWEEN_LOOKS_S", 0)
    return SimpleNamespace(servers=[SimpleNamespace(name=name) for name in SERVERS])


def test_a_new_machine_may_have_another_key_at_first(booting_plan: Any) -> None:
    servers: Any = Booting(looks=2)
    wait_for_machines(booting_plan, booting_plan, servers)
    assert servers.looks == dict.fromkeys(SERVERS, -1)


def test_a_machine_that_never_has_its_key_is_named(
    booting_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "BOOTS_WITHIN_S", 0)
    servers: Any = Booting(looks=1000)
    with pytest.raises(UnreachableError, match="server-0: Host key verification failed"):
        wait_for_machines(booting_plan, booting_plan, servers)


def test_a_server_is_emptied_as_if_it_was_removed_nomad_first() -> None:
    assert removals(STATE, ["server-1"]) == {
        "server-1": ["remove nomad-server-1", "remove consul-server-1"]
    }


def test_the_run_in_a_restored_state_ends_and_loses_its_token_and_nothing_else_does(
    serve: Serve,
) -> None:
    jobs = {
        "snapshots": "running",
        "snapshots/periodic-1": "dead",
        "snapshots/periodic-2": "running",
    }
    roles = {"a": "slipway-snapshots", "b": "slipway-xds"}
    ends, revokes = "DELETE /v1/job/snapshots%2Fperiodic-2", "DELETE /v1/acl/token/a"
    server = serve(
        {
            "GET /v1/jobs": (200, [{"ID": n, "Status": s, "Stop": False} for n, s in jobs.items()]),
            "GET /v1/acl/tokens": (
                200,
                [
                    {"AccessorID": "management"},
                    *({"AccessorID": t, "Roles": [{"Name": r}]} for t, r in roles.items()),
                ],
            ),
            ends: (200, {}),
            revokes: (200, {}),
        }
    )
    nomad = Nomad.of_any([server.address], None, Path())
    end_the_snapshots_run(
        Clusters(nomad=nomad, consul=Consul.of_any([server.address], None, Path()))
    )
    assert [each for each in server.asked if each.startswith("DELETE")] == [ends, revokes]
