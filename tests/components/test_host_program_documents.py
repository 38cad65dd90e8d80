"""Every document for services/host and services/operator and its secrets, against their schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from stacks.platform import Platform
from stacks.recording import Recording, Registration
from stacks.targets import load
from tests.components.platform_plan import platform_plan
from tests.components.recording import record
from tests.schemas import validate

SCHEMAS = Path(__file__).parents[2] / "schemas"
SCHEMA_OF = {
    "agents.py": "node",
    "consul_acl.py": "consul-acl",
    "nomad_acl.py": "nomad-acl",
    "nomad_nodes.py": "pool-gate",
    "operator_access.py": "operator",
    "model_ready.py": "model-gate",
    "routes_acknowledged.py": "routes-gate",
}


def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return document


def secrets_schema(name: str) -> dict[str, Any]:
    return {"$ref": f"{name}.schema.json#/$defs/secrets"}


def validator(wanted: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """Schemas refer to each other by their `$id`."""
    resources = [(name, Resource.from_contents(schema(name))) for name in SCHEMA_OF.values()]
    registry = Registry().with_resources(
        [(f"{name}.schema.json", resource) for name, resource in resources]
    )
    return jsonschema.Draft202012Validator(wanted, registry=registry)


def program(found: Registration) -> str:
    script = re.search(r'/([a-z_]+\.py)" ', found.text("create"))
    assert script is not None
    return script[1]


def secrets(found: Registration) -> Any:
    return json.loads(found.inputs["stdin"]["value"])


def document(found: Registration) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text(found))
    return parsed


def text(found: Registration) -> str:
    return str(found.inputs["environment"]["SLIPWAY_DOCUMENT"])


@pytest.fixture(scope="module", params=[1, 3], ids=["one server", "three servers"])
def programs(request: pytest.FixtureRequest) -> list[Registration]:
    plan = platform_plan(in_turn=("sim",), servers=request.param)
    recording: Recording = record(lambda: Platform("platform", plan, load(plan.target)))
    return recording.of_type("command:local:Command")


def test_every_program_has_a_schema(programs: list[Registration]) -> None:
    assert {program(found) for found in programs} == set(SCHEMA_OF)


def test_every_document_follows_its_schema(programs: list[Registration]) -> None:
    for found in programs:
        errors = validator(schema(SCHEMA_OF[program(found)])).iter_errors(document(found))
        assert [error.message for error in errors] == [], found.name


def test_all_secrets_follow_the_schema_of_their_program(programs: list[Registration]) -> None:
    for found in programs:
        errors = validator(secrets_schema(SCHEMA_OF[program(found)])).iter_errors(secrets(found))
        assert [error.message for error in errors] == [], found.name


def test_every_address_has_tls(programs: list[Registration]) -> None:
    for found in programs:
        assert "http://" not in text(found), found.name


@pytest.mark.parametrize("script", sorted(SCHEMA_OF.keys() - {"operator_access.py"}))
def test_a_schema_takes_no_address_without_a_host(
    programs: list[Registration], script: str
) -> None:
    rendered = text(next(each for each in programs if program(each) == script))
    assert "https://" in rendered
    for without_a_host in ("http://:8500", "https://"):
        unknown = re.sub(r'https://[0-9.]+:[0-9]+(?=["/])', without_a_host, rendered)
        with pytest.raises(jsonschema.ValidationError, match="does not match"):
            validate(json.loads(unknown), SCHEMA_OF[script])


@pytest.mark.parametrize("script", sorted(SCHEMA_OF))
def test_a_schema_refuses_an_unknown_key(programs: list[Registration], script: str) -> None:
    found = next(each for each in programs if program(each) == script)
    for valid, by in (
        (document(found), schema(SCHEMA_OF[script])),
        (secrets(found), secrets_schema(SCHEMA_OF[script])),
    ):
        with pytest.raises(jsonschema.ValidationError, match="labels"):
            validator(by).validate(valid | {"labels": {}})


def test_a_pool_waits_for_all_of_its_nodes(programs: list[Registration]) -> None:
    gates = [document(found) for found in programs if program(found) == "nomad_nodes.py"]
    assert {gate["pool"]: gate["count"] for gate in gates} == {"cpu": 2, "edge": 1}


def test_every_nomad_client_waits_for_its_own_consul_agent_and_any_of_the_servers(
    programs: list[Registration],
) -> None:
    servers, nodes = list[str](), list[dict[str, Any]]()
    for found in map(document, (each for each in programs if program(each) == "agents.py")):
        (agent,) = [agent for agent in found["agents"] if agent["name"] == "nomad"] or [None]
        if agent is not None and "departure" in found:
            nodes.append(agent)
        elif agent is not None:
            servers.append(agent["ready_url"].rpartition("/v1/")[0])
            assert "starts_after" not in agent
    assert len(nodes) == 3
    for agent in nodes:
        address = agent["configuration"]["consul"]["address"]
        assert agent["starts_after"] == {
            "consul": f"https://{address}",
            "consul_service": "consul-agent",
            "nomad": sorted(servers),
        }
