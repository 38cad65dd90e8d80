"""The policy in a route document, for schemas of several shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.gateway.routes import AFFINITY, LEAST_REQUEST, NoSuchPolicyError, placed_by

ROOT = Path(__file__).parents[4]
ROUTE = {"model": "tiny"}


def schema(routing: dict[str, Any], **definitions: Any) -> dict[str, Any]:
    return {
        "$defs": definitions,
        "properties": {"model": {"type": "string"}, "routing": routing},
        "additionalProperties": False,
    }


ONE_OBJECT = {
    "type": "object",
    "properties": {
        "policy": {"enum": ["affinity", "least_request"]},
        "bound_percent": {"type": "integer"},
    },
    "required": ["policy"],
    "additionalProperties": False,
}
AFFINE = {
    "type": "object",
    "properties": {"kind": {"const": "prefix_affinity"}, "bound": {"type": "number"}},
    "required": ["kind", "bound"],
    "additionalProperties": False,
}
LEAST = {
    "type": "object",
    "properties": {"kind": {"const": "least-request"}},
    "required": ["kind"],
    "additionalProperties": False,
}
TWO_OBJECTS = schema(
    {"anyOf": [{"$ref": "#/$defs/Affine"}, {"$ref": "#/$defs/Least"}, {"type": "null"}]},
    Affine=AFFINE,
    Least=LEAST,
)


def test_other_settings_of_the_same_object_are_kept() -> None:
    planned = {**ROUTE, "routing": {"policy": "affinity", "bound_percent": 125}}
    changed = placed_by(LEAST_REQUEST, planned, schema(ONE_OBJECT))
    assert changed == {**ROUTE, "routing": {"policy": "least_request", "bound_percent": 125}}
    assert placed_by(AFFINITY, planned, schema(ONE_OBJECT)) == planned


def test_settings_that_another_object_does_not_have_are_left_out() -> None:
    planned = {**ROUTE, "routing": {"kind": "prefix_affinity", "bound": 1.25}}
    changed = placed_by(LEAST_REQUEST, planned, TWO_OBJECTS)
    assert changed == {**ROUTE, "routing": {"kind": "least-request"}}
    assert placed_by(AFFINITY, planned, TWO_OBJECTS) == planned


def test_a_revision_without_a_choice_has_least_request_only() -> None:
    plain = {"properties": {"model": {"type": "string"}}}
    assert placed_by(LEAST_REQUEST, ROUTE, plain) == ROUTE
    with pytest.raises(NoSuchPolicyError, match="know no affinity"):
        placed_by(AFFINITY, ROUTE, plain)


def test_a_choice_that_has_another_name_is_said() -> None:
    with pytest.raises(NoSuchPolicyError, match=r"route\.schema\.json"):
        placed_by(LEAST_REQUEST, ROUTE, schema(AFFINE))


def test_least_request_can_be_had_in_this_checkout() -> None:
    document = json.loads((ROOT / "schemas/route.schema.json").read_text())
    golden = json.loads((ROOT / "tests/golden/files/routes.json").read_text())
    for route in golden.values():
        assert placed_by(LEAST_REQUEST, route, document)["model"] == route["model"]
