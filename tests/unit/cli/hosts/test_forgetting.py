"""What `forget` removes from the state, and when a server may go."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.clusters.both import Clusters
from cli.clusters.consul import Consul
from cli.clusters.nomad import Nomad
from cli.errors import CliError
from cli.hosts.forgetting import must_be_lost, must_be_silent, quorum_without, recorded
from cli.pulumi.repairs import without_resources
from tests.unit.cli.conftest import Serve

WAY = {"address": "10.0.0.21", "port": 22, "user": "root", "host_key": "k", "jump": None}
PLATFORM = "urn:pulumi:hosts::slipway::slipway:index:Platform$"


def remote(name: str, **changes: Any) -> dict[str, Any]:
    kind = "command:remote:Command"
    return {"type": kind, "urn": f"{PLATFORM}{kind}::{name}", **changes}


def delivery(host: str) -> dict[str, Any]:
    kind = "command:local:Command"
    document = json.dumps({"host": host, "ssh": WAY})
    return {
        "type": kind,
        "urn": f"{PLATFORM}{kind}::delivery-{host}",
        "inputs": {"environment": {"SLIPWAY_DOCUMENT": document}},
    }


def state(*resources: dict[str, Any]) -> str:
    return json.dumps({"version": 3, "deployment": {"resources": resources}})


def names(urns: tuple[str, ...]) -> list[str]:
    return [urn.rpartition("::")[2] for urn in urns]


STATE = state(
    delivery("worker-0"),
    remote("node-worker-0"),
    delivery("worker-0-b"),
    remote("node-worker-0-b"),
    delivery("server-0"),
    remote("consul-server-0"),
    remote("nomad-server-0"),
    {
        "type": "tls:index/locallySignedCert:LocallySignedCert",
        "urn": "u::certificate-host-worker-0",
    },
)


def test_exactly_the_hosts_own_resources_are_named_with_the_way_to_it() -> None:
    found = recorded(STATE, "worker-0", "hosts")
    assert names(found.urns) == ["node-worker-0", "delivery-worker-0"]
    assert found.way == WAY
    assert not found.server


def test_a_server_has_the_agents_of_both_clusters() -> None:
    found = recorded(STATE, "server-0", "hosts")
    assert names(found.urns) == ["consul-server-0", "nomad-server-0", "delivery-server-0"]
    assert found.server


def test_a_host_that_the_state_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(CliError) as refused:
        recorded(STATE, "worker-9", "hosts")
    assert refused.value.fix == "use one of: server-0, worker-0, worker-0-b"


def test_nothing_in_the_state_depends_on_what_was_removed() -> None:
    node, gone = remote("node-a"), delivery("a")
    gate = remote(
        "pool-cpu-ready",
        dependencies=[node["urn"], "other"],
        propertyDependencies={"create": [gone["urn"]], "stdin": None},
    )
    kept = json.loads(without_resources(state(gone, node, gate), {node["urn"], gone["urn"]}))
    assert kept["deployment"]["resources"] == [
        {**gate, "dependencies": ["other"], "propertyDependencies": {"create": [], "stdin": []}}
    ]


def servers(*states: int) -> list[dict[str, Any]]:
    return [{"Name": f"server-{k}", "Status": status} for k, status in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "remains"),
    [
        ((4,), False),
        ((4, 1, 1), True),
        ((4, 4, 1), False),
        ((4, 1, 1, 1, 4), True),
        ((4, 1, 1, 4, 4), False),
    ],
    ids=["the only one", "one of three", "two of three", "two of five", "three of five"],
)
def test_a_server_is_forgotten_only_where_a_majority_of_all_lives_without_it(
    states: tuple[int, ...], remains: bool
) -> None:
    assert quorum_without("server-0", servers(*states)) is remains


@pytest.mark.parametrize(
    ("consul", "nomad", "heard_by"),
    [
        (1, "failed", "Consul"),
        (4, "alive", "Nomad"),
        (4, "leaving", "Nomad"),
        (4, "failed", None),
        (3, "left", None),
    ],
)
def test_a_server_is_lost_once_the_others_of_both_clusters_have_noticed_it(
    serve: Serve, consul: int, nomad: str, heard_by: str | None
) -> None:
    members = [
        {"Name": "server-0.global", "Status": nomad},
        {"Name": "server-01.global", "Status": "alive"},
    ]
    asked = {"GET /v1/nodes": (200, []), "GET /v1/agent/members": (200, {"Members": members})}
    gossip = [{"Name": "server-0", "Status": consul}, {"Name": "server-01", "Status": 1}]
    both = Clusters(
        nomad=Nomad.of_any([serve(asked).address], None, Path()),
        consul=Consul.of_any(
            [serve({"GET /v1/agent/members": (200, gossip)}).address], None, Path()
        ),
    )
    expected = pytest.raises(CliError, match=f"{heard_by} still hears it")
    with expected if heard_by else nullcontext():
        must_be_lost(recorded(STATE, "server-0", "hosts"), both)


@pytest.mark.parametrize(
    ("listed_in", "fix"),
    [
        ("hosts.yaml", "remove it from hosts.yaml; slipway up -s hosts then drains and removes it"),
        (None, "slipway up -s hosts drains and removes it"),
    ],
)
def test_a_host_that_answers_is_removed_from_the_file_that_names_it(
    listed_in: str | None, fix: str
) -> None:
    answers: Any = SimpleNamespace(ask=lambda *_, **__: "")
    with pytest.raises(CliError, match="worker-0 still answers over SSH") as refused:
        must_be_silent(recorded(STATE, "worker-0", "hosts"), answers, "hosts", listed_in)
    assert refused.value.fix == fix
