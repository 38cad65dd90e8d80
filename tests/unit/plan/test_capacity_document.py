from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema
import pytest

from slipway.plan import capacity
from slipway.plan.document import capacity_to_json
from slipway.planner.capacity import plan_capacity
from tests.unit.plan.samples import ROOT, dev_inputs, dev_plan
from tests.unit.planner.fleets import fleet

SCHEMA = json.loads((ROOT / "schemas/capacity.schema.json").read_text())


def _valid(document: Any) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


def _document() -> Any:
    return json.loads(capacity_to_json(plan_capacity(fleet())))


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_plans_of_fleets_and_of_dev_are_valid_alone_and_with_what_comes_along() -> None:
    plan, dev = plan_capacity(fleet()), plan_capacity(dev_inputs())
    assert _valid(json.loads(capacity_to_json(plan)))
    assert _valid(json.loads(capacity_to_json(dev, platform=dev_plan())))
    assert _valid(json.loads(capacity_to_json(plan, before=plan)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), 2),
        (("extra",), 1),
        (("before",), {}),
        (("models", 0, "memory", "extra"), 1),
        (("models", 0, "cost", "price_date"), "yesterday"),
        (("models", 0, "serving", "ttft_ms", "basis"), "hoped"),
        (("models", 0, "serving", "ttft_ms", "source"), ""),
        (("pools", 0, "nodes_max"), 0),
    ],
)
def test_the_schema_refuses_what_no_plan_says(path: tuple[str | int, ...], value: Any) -> None:
    document = _document()
    part = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    assert not _valid(document)


def test_the_schema_has_exactly_the_fields_of_the_plan() -> None:
    kinds = {name: kind for name, kind in vars(capacity).items() if dataclasses.is_dataclass(kind)}
    assert SCHEMA["$defs"].keys() == kinds.keys()
    for name, kind in kinds.items():
        fields = {field.name for field in dataclasses.fields(kind)}
        assert SCHEMA["$defs"][name]["properties"].keys() == fields, name
        assert set(SCHEMA["$defs"][name]["required"]) == fields, name
