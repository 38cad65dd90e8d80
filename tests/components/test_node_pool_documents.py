"""The documents of nodes, whole, and the contract they follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from components.consul import agent_config as consul
from components.consul.joining import HostTokens
from components.node_pool import node_document as nodes
from components.node_pool.host_document import host_document
from components.node_pool.supervision import Supervisord
from components.nomad import agent_config as nomad
from slipway.plan.platform import PlatformPlan
from tests.components.cluster_plan import cluster_plan, with_more_cpu
from tests.components.golden import assert_golden

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/node.schema.json").read_text())
SEED = "a seed of no cluster"
JOINING = HostTokens()


def supervision(plan: PlatformPlan) -> dict[str, Any]:
    return Supervisord().section(plan.node_agent)


def server_documents(plan: PlatformPlan) -> dict[str, Any]:
    documents = {}
    for server in plan.servers:
        for agent in (consul.server_agent(plan, server), nomad.server_agent(plan, server)):
            name = f"{server.name}-{agent.name}"
            documents[name] = host_document(server.name, [agent], supervision(plan))
    return documents


def node_documents(plan: PlatformPlan) -> dict[str, Any]:
    return {
        node.name: nodes.node_document(plan, pool, node, supervision(plan))
        for pool in plan.pools
        for node in pool.hosts
    }


@pytest.mark.parametrize("host", ["cpu-0", "edge-0"])
def test_a_node_is_rendered_whole(host: str) -> None:
    assert_golden(f"node/{host}.json", node_documents(cluster_plan())[host])


@pytest.mark.parametrize("name", ["server-0-consul", "server-0-nomad"])
def test_a_server_agent_is_rendered_whole(name: str) -> None:
    assert_golden(f"node/{name}.json", server_documents(cluster_plan())[name])


def test_a_gate_is_rendered_whole() -> None:
    plan = cluster_plan()
    assert_golden("node/pool-cpu-ready.json", nodes.gate_document(plan, plan.pools[0]))


@pytest.mark.parametrize("servers", [1, 3])
def test_every_document_follows_the_schema(servers: int) -> None:
    plan = cluster_plan(servers=servers)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for document in [*server_documents(plan).values(), *node_documents(plan).values()]:
        validator.validate(document)


def test_the_schema_refuses_an_unknown_key() -> None:
    document = node_documents(cluster_plan())["cpu-0"] | {"labels": {}}
    with pytest.raises(jsonschema.ValidationError, match="labels"):
        jsonschema.validate(document, SCHEMA)


def test_a_secrets_document_follows_the_schema() -> None:
    schema = {**SCHEMA, **SCHEMA["$defs"]["secrets"]}
    del schema["$id"]
    jsonschema.validate(nodes.node_secrets(JOINING, "cpu-0", SEED), schema)


def test_no_document_holds_a_secret() -> None:
    plan = cluster_plan()
    secrets = strings(nodes.node_secrets(JOINING, "cpu-0", SEED)) | strings(
        nomad.server_secrets(SEED, JOINING.nomad_token("server-0", SEED))
        | consul.server_secrets(SEED, JOINING.consul_token("server-0", SEED))
    )
    text = json.dumps([server_documents(plan), node_documents(plan)])
    assert len(secrets) >= 5
    assert [secret for secret in secrets if secret in text] == []


def test_no_document_names_a_path_of_this_machine() -> None:
    plan = cluster_plan()
    text = json.dumps([server_documents(plan), node_documents(plan)])
    assert str(Path.home()) not in text
    assert str(Path(__file__).parents[2]) not in text


def test_a_changed_pool_changes_the_documents_of_its_own_nodes_only() -> None:
    plan = cluster_plan()
    before, after = node_documents(plan), node_documents(with_more_cpu(plan, "cpu"))
    assert {host for host in before if before[host] != after[host]} == {"cpu-0", "cpu-1"}
    consul_before, nomad_before = before["cpu-0"]["agents"]
    consul_after, nomad_after = after["cpu-0"]["agents"]
    assert consul_before == consul_after
    assert nomad_before != nomad_after


def strings(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(strings(item) for item in value.values()))
    return {value} if isinstance(value, str) else set()
