"""The documents of nodes, whole, and the contract they follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from components.consul import agent_config as consul
from components.hosts.supervision import Supervision, Supervisord, Systemd
from components.joining.tokens import HostTokens
from components.node_pool import node_document as nodes
from components.nomad import agent_config as nomad
from slipway.plan.platform import PlatformPlan
from tests.components.cluster_plan import cluster_plan, with_more_cpu
from tests.components.golden import assert_golden

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/node.schema.json").read_text())
SEED = "a seed of no cluster"
CERTIFICATE = {
    "ca.pem": "-----BEGIN CERTIFICATE----- of the authority",
    "cert.pem": "-----BEGIN CERTIFICATE----- of the host",
    "key.pem": "-----BEGIN PRIVATE KEY----- of the host",
}
KNOWN = {"seed": SEED, "certificate": CERTIFICATE}
JOINING = HostTokens()
SUPERVISORD, SYSTEMD = Supervisord(), Systemd()


def server_documents(
    plan: PlatformPlan, supervision: Supervision = SUPERVISORD
) -> dict[str, dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = {}
    for server in plan.servers:
        documents |= {
            f"{server.name}-consul": consul.server_document(plan, server, supervision),
            f"{server.name}-nomad": nomad.server_document(plan, server, supervision, JOINING),
        }
    return documents


def node_documents(
    plan: PlatformPlan, supervision: Supervision = SUPERVISORD
) -> dict[str, dict[str, Any]]:
    return {
        node.name: nodes.node_document(plan, pool, node, supervision, JOINING)
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
    for supervision in (SUPERVISORD, SYSTEMD):
        for documents in (server_documents(plan, supervision), node_documents(plan, supervision)):
            for document in documents.values():
                validator.validate(document)


def test_the_schema_refuses_an_unknown_key() -> None:
    document = node_documents(cluster_plan())["cpu-0"] | {"labels": {}}
    with pytest.raises(jsonschema.ValidationError, match="labels"):
        jsonschema.validate(document, SCHEMA)


def test_a_secrets_document_follows_the_schema() -> None:
    schema = {**SCHEMA, **SCHEMA["$defs"]["secrets"]}
    del schema["$id"]
    jsonschema.validate(nodes.node_secrets(JOINING, "cpu-0", 1, KNOWN), schema)


def test_no_document_holds_a_secret() -> None:
    plan = cluster_plan()
    secrets = strings(nodes.node_secrets(JOINING, "cpu-0", 1, KNOWN)) | strings(
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


def test_under_systemd_only_the_agent_that_runs_tasks_is_root() -> None:
    plan = cluster_plan()
    documents = {**server_documents(plan, SYSTEMD), **node_documents(plan, SYSTEMD)}
    users = {
        (host, name): unit["user"]
        for host, document in documents.items()
        for name, unit in document["supervisor"]["agents"].items()
    }
    roots = {key for key, user in users.items() if user == "root"}
    assert roots == {(host, "nomad") for host in node_documents(plan)}
    assert users["server-0-consul", "consul"] == users["cpu-0", "consul"]
    assert len({user for (host, _), user in users.items() if host.startswith("server")}) == 3


def test_the_supervisor_changes_nothing_else_of_a_document_but_the_interpreter() -> None:
    plan = cluster_plan()
    for render in (server_documents, node_documents):
        for name, document in render(plan, SYSTEMD).items():
            other = render(plan)[name]
            for agent in other["agents"]:
                if agent["name"] == nomad.KEY_PUBLISHER:
                    agent["command"][0] = "/usr/bin/python3"
            assert {**document, "supervisor": other["supervisor"]} == other


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
