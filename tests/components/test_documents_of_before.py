"""The schemas describe the previous version too: documents that the program of before rendered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.schemas import validate

ROOT = Path(__file__).parents[2]
SERVICES = ROOT / "services"
SCHEMA_OF = {
    "engine_sim/tests/documents_of_before/replica.json": "replica",
    "program/tests/documents_of_before/consul-acl.json": "consul-acl",
    "program/tests/documents_of_before/consul-workloads.json": "consul-acl",
    "program/tests/documents_of_before/cpu-0.json": "node",
    "program/tests/documents_of_before/model-sim-ready.json": "model-gate",
    "program/tests/documents_of_before/nomad-acl.json": "nomad-acl",
    "program/tests/documents_of_before/pool-cpu-ready.json": "pool-gate",
    "program/tests/documents_of_before/server-0-consul.json": "node",
    "program/tests/documents_of_before/server-0-nomad.json": "node",
    "triton_vllm/tests/documents_of_before/replica.json": "replica",
}


def schema(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((ROOT / f"schemas/{name}.schema.json").read_text())
    return parsed


def document(path: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((SERVICES / path).read_text())
    return parsed


def test_every_document_of_before_has_its_schema_here() -> None:
    found = SERVICES.glob("*/tests/documents_of_before/*.json")
    assert {str(path.relative_to(SERVICES)) for path in found} == set(SCHEMA_OF)


@pytest.mark.parametrize(("path", "name"), sorted(SCHEMA_OF.items()))
def test_a_document_of_before_follows_todays_schema(path: str, name: str) -> None:
    newest = schema(name)["properties"]["schema_version"].get("enum", [1])[-1]
    assert document(path)["schema_version"] == max(1, newest - 1)
    validate(document(path), name)


@pytest.mark.parametrize(
    ("path", "newer"),
    [
        ("program/tests/documents_of_before/model-sim-ready.json", {"protocols": ["http"]}),
        ("program/tests/documents_of_before/model-sim-ready.json", {"release": "stable"}),
        ("program/tests/documents_of_before/model-sim-ready.json", {"envoys": 1}),
        ("program/tests/documents_of_before/pool-cpu-ready.json", {"count": 2}),
        ("program/tests/documents_of_before/pool-cpu-ready.json", {"schema_version": 2}),
        ("program/tests/documents_of_before/pool-cpu-ready.json", {"schema_version": 3}),
    ],
)
def test_a_document_mixes_no_versions(path: str, newer: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate(document(path) | newer, SCHEMA_OF[path])


def test_only_a_node_of_version_3_says_how_its_agents_take_up_a_certificate() -> None:
    node = document("program/tests/documents_of_before/cpu-0.json")
    node["agents"][1]["renewal"] = "restart"
    with pytest.raises(jsonschema.ValidationError):
        validate(node, "node")
    validate(node | {"schema_version": 3}, "node")
