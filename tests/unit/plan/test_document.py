from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from slipway.inputs import load_inputs
from slipway.plan import aws, fabric, figures, platform
from slipway.plan.document import plan_to_json
from slipway.plan.platform import SCHEMA_VERSION, PlatformPlan
from stacks.planning import make_plan
from tests.unit.plan.samples import ROOT, dev_plan
from tests.unit.planner.fleets import fleet

GOLDEN = Path(__file__).with_name("dev_plan.json")
PROGRAM = """
import sys
from pathlib import Path
from slipway.inputs import load_inputs
from slipway.plan.document import plan_to_json
from stacks.planning import make_plan
for name in sys.argv[2:]:
    sys.stdout.write(plan_to_json(make_plan(load_inputs(Path(sys.argv[1]), name))))
"""
# Kinds of which plan and draft have all fields: they are not themselves in a document.
SHARED_WITH_DRAFTS = ("ModelWithoutJobs", "PlatformWithoutModels")
SCHEMA = json.loads((ROOT / "schemas/plan.schema.json").read_text())


def _valid(document: Any) -> bool:
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator(SCHEMA, format_checker=checker).is_valid(document)


def test_the_plan_of_dev_is_the_one_in_the_golden_file() -> None:
    """When the change is meant: python -m tests.unit.plan.samples > the golden file."""
    assert plan_to_json(dev_plan()) == GOLDEN.read_text()


@pytest.mark.thorough
def test_the_plan_of_a_fleet_is_the_same_text_in_every_process() -> None:
    """Python orders sets of text otherwise in every process."""
    fleets = ("aws", "metal")
    once, text = (
        "".join(plan_to_json(make_plan(load_inputs(ROOT, name))) for name in fleets)
        for _ in range(2)
    )
    assert once == text
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), *fleets],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == text


def test_the_document_ends_with_a_newline_and_sorts_its_keys() -> None:
    text = plan_to_json(dev_plan())
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n"


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_plans_of_fleets_and_of_dev_are_valid_alone_and_with_the_plan_before_a_change() -> None:
    plan = make_plan(fleet())
    assert _valid(json.loads(plan_to_json(dev_plan())))
    assert _valid(json.loads(plan_to_json(plan)))
    assert _valid(json.loads(plan_to_json(plan, before=plan)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), SCHEMA_VERSION + 1),
        (("extra",), 1),
        (("gateway", "clients", "port"), 0),
        (("gateway", "envoys", 0, "listener", "port"), 65536),
        (("consul", "scheme"), "ftp"),
        (("servers", 0, "address"), "localhost"),
        (("models", 0, "releases", 0, "job_id"), "smollm2"),
        (("models", 0, "releases", 0, "spec_digest"), "7"),
        (("models", 0, "replica", "memory_bytes"), "4GiB"),
        (("models", 0, "replica", "weights"), 3),
        (("gateway", "envoys", 0, "node"), None),
        (("pools", 0, "range"), {"min": 1, "max": 2}),
    ],
)
def test_the_schema_refuses_what_a_plan_of_dev_never_contains(
    path: tuple[str | int, ...], value: Any
) -> None:
    assert not _valid(_changed(dev_plan(), path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("before",), {}),
        (("models", 0, "memory", "extra"), 1),
        (("models", 0, "cost", "price_date"), "yesterday"),
        (("models", 0, "serving", "ttft_ms", "basis"), "hoped"),
        (("models", 0, "serving", "ttft_ms", "source"), ""),
        (("pools", 0, "range", "max"), 0),
        (("pools", 0, "range"), None),
    ],
)
def test_the_schema_refuses_what_a_plan_of_a_fleet_never_contains(
    path: tuple[str | int, ...], value: Any
) -> None:
    assert not _valid(_changed(make_plan(fleet()), path, value))


def _changed(plan: PlatformPlan, path: tuple[str | int, ...], value: Any) -> Any:
    document = json.loads(plan_to_json(plan))
    part = document
    for key in path[:-1]:
        part = part[key]
    last = path[-1]
    assert isinstance(last, int) or last in part or last in {"extra", "before"}, "a key of the plan"
    part[last] = value
    return document


def test_the_schema_has_exactly_the_fields_of_the_plan() -> None:
    kinds = {
        name: kind
        for module in (aws, fabric, figures, platform)
        for name, kind in vars(module).items()
        if dataclasses.is_dataclass(kind) and name not in SHARED_WITH_DRAFTS
    }
    assert SCHEMA["$defs"].keys() == kinds.keys()
    for name, kind in kinds.items():
        schema = SCHEMA["$defs"][name]
        fields = {field.name for field in dataclasses.fields(kind)}
        assert schema["properties"].keys() == fields, name
        assert set(schema["required"]) == fields, name
        # The whole document may have one more key, the plan before a change.
        assert (schema.get("additionalProperties") is False) == (name != "PlatformPlan"), name
