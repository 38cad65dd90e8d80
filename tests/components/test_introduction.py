"""Hosts that are introduced, as documents and as resources."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from components.consul import acl
from components.consul.task_roles import task_roles
from components.hosts.supervision import Supervisord
from components.joining.introduction import LOG_INS, Introduction
from components.node_pool.node_document import node_document, node_secrets
from components.nomad import agent_config as nomad
from components.nomad.agent_config import jwks_url
from slipway.plan.platform import PlatformPlan, SshHost, SshPlan
from stacks.platform import Platform
from stacks.recording import Recording
from stacks.targets.metal import TARGET
from tests.components.cluster_plan import cluster_plan
from tests.components.golden import assert_golden
from tests.components.platform_plan import platform_plan
from tests.components.recording import record

SCHEMAS = Path(__file__).parents[2] / "schemas"
SEED = "a seed of no cluster"


def reached(plan: PlatformPlan) -> PlatformPlan:
    nodes = [node for pool in plan.pools for node in pool.hosts]
    addresses = {host.name: host.address for host in plan.servers}
    addresses |= {host.name: host.address for host in nodes}
    hosts = {
        name: SshHost(address=address, port=22, user="root", host_key="ssh-ed25519 AAAAC3Nz")
        for name, address in addresses.items()
    }
    return dataclasses.replace(
        plan, ssh=SshPlan(hosts=hosts, jump=None, keys=(), known_hosts="known_hosts")
    )


def without_last_node(plan: PlatformPlan) -> PlatformPlan:
    first, *others = plan.pools
    return dataclasses.replace(
        plan, pools=(dataclasses.replace(first, hosts=first.hosts[:-1]), *others)
    )


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return reached(cluster_plan())


@pytest.fixture(scope="module")
def joining(plan: PlatformPlan) -> Introduction:
    return Introduction(plan)


@pytest.fixture(scope="module")
def documents(plan: PlatformPlan, joining: Introduction) -> dict[str, dict[str, Any]]:
    pool = plan.pools[0]
    return {
        "admission": joining.admission(plan, pool.hosts[0]),
        "consul-acl": acl.acl_document(
            plan.consul.url, joining.tokens(plan), task_roles(plan).values(), LOG_INS
        ),
        "consul-workloads": acl.workload_document(
            plan.consul.url, jwks_url(plan), task_roles(plan), LOG_INS
        ),
        "server-0-nomad": nomad.server_document(plan, plan.servers[0], Supervisord(), joining),
        "cpu-0": node_document(plan, pool, pool.hosts[0], Supervisord(), joining),
    }


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("admission", "admission"),
        ("consul-acl", "consul-acl"),
        ("consul-workloads", "consul-acl"),
        ("server-0-nomad", "node"),
        ("cpu-0", "node"),
    ],
)
def test_a_document_is_rendered_whole_and_follows_its_schema(
    documents: dict[str, dict[str, Any]], name: str, schema: str
) -> None:
    jsonschema.validate(
        documents[name], json.loads((SCHEMAS / f"{schema}.schema.json").read_text())
    )
    assert_golden(f"introduced/{name}.json", documents[name])


def test_a_node_is_given_no_token_and_a_server_is(joining: Introduction) -> None:
    known = {"seed": SEED, "certificate": {}}
    secrets = node_secrets(joining, "cpu-0", 1, known)["agents"]
    assert secrets["nomad"] == {"consul": {"token": "@token@"}}
    assert set(secrets["consul"]["acl"]["tokens"].values()) == {"@token@"}
    assert "@" not in joining.consul_token("server-0", SEED)
    assert "@" not in joining.nomad_token("server-0", SEED)


def test_the_permissions_name_no_node_and_do_not_change_with_one(
    plan: PlatformPlan, joining: Introduction
) -> None:
    after = without_last_node(plan)
    assert "cpu" not in json.dumps(joining.tokens(plan))
    assert joining.tokens(after) == joining.tokens(plan)
    assert joining.token_secrets(after, SEED) == joining.token_secrets(plan, SEED)
    assert len(joining.tokens(plan)) == 2 * len(plan.servers)


def test_each_agent_logs_in_for_what_it_needs_and_every_token_is_bound_to_its_node(
    documents: dict[str, dict[str, Any]],
) -> None:
    granted: dict[str, set[tuple[str, str]]] = {}
    for rule in documents["consul-workloads"]["binding_rules"]:
        granted.setdefault(rule["AuthMethod"], set()).add((rule["BindType"], rule["BindName"]))
    node = ("node", "${value.nomad_node_name}")
    assert granted["consul-agents"] == {node, ("service", "consul-agent")}
    assert granted["nomad-clients"] == {node, ("role", "nomad-client")}
    roles = {role["Name"]: role["Policies"] for role in documents["consul-acl"]["roles"]}
    assert roles["nomad-client"] == [{"Name": "nomad-client"}]


@functools.cache
def platform(hosts: int = 2) -> Recording:
    plan = reached(platform_plan())
    chosen = plan if hosts == 2 else without_last_node(plan)
    return record(lambda: Platform("platform", chosen, TARGET) and None)


def test_a_host_has_four_resources() -> None:
    of_one_host = [name for name in platform().registrations if "cpu-0" in name]
    assert sorted(of_one_host) == [
        "admission-cpu-0",
        "certificate-host-cpu-0",
        "delivery-cpu-0",
        "node-cpu-0",
    ]


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("admission-cpu-0", "nomad-workloads"),  # which makes the auth methods
        ("admission-cpu-0", "delivery-cpu-0"),  # which may take longer than an introduction
        ("node-cpu-0", "admission-cpu-0"),
        ("admission-cpu-1", "node-cpu-0"),  # nodes change one after the other
    ],
)
def test_each_step_waits_for_the_one_before(later: str, earlier: str) -> None:
    assert earlier in platform()[later].depends_on


def test_a_server_is_not_admitted() -> None:
    assert "admission-server-0" not in platform().registrations


def test_an_admission_knows_the_operators_tokens_as_secrets_only() -> None:
    found = platform()["admission-cpu-0"]
    assert found.is_secret("stdin")
    schema = json.loads((SCHEMAS / "admission.schema.json").read_text())["$defs"]["secrets"]
    jsonschema.validate(json.loads(found.inputs["stdin"]["value"]), schema)
    assert found.text("create").endswith('admit.py" apply')
    assert found.text("delete").endswith('admit.py" remove')


def test_a_host_that_goes_changes_only_its_own_resources_and_the_gate_of_its_pool() -> None:
    before, after = platform().registrations, platform(hosts=1).registrations
    own = {f"{kind}-cpu-1" for kind in ("certificate-host", "delivery", "admission", "node")}
    assert before.keys() - after.keys() == own
    changed = {name for name in after if before[name].inputs != after[name].inputs}
    assert changed <= {"platform", "pool-cpu", "pool-cpu-ready"}
