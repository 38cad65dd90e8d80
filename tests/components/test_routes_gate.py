"""The document of the routes' gate."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from components.gateway.routes_gate import gate_document
from slipway.plan.platform import PlatformPlan
from tests.components.golden import assert_golden
from tests.components.platform_plan import platform_plan
from tests.unit.plan.samples import ROOT

SCHEMA = json.loads((ROOT / "schemas/routes-gate.schema.json").read_text())
LONGEST_NAME = 40  # slipway.config.base.ResourceName
LONGEST_VARIABLE = 128 * 1024  # of a process's environment: MAX_ARG_STRLEN of Linux


def document(plan: PlatformPlan) -> dict[str, Any]:
    made = gate_document(plan)
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    return made


def test_the_document_is_rendered_whole() -> None:
    assert_golden("node/routes-acknowledged.json", document(platform_plan()))


def test_a_model_whose_replicas_are_exchanged_keeps_its_service() -> None:
    routes = document(platform_plan(in_turn=("sim",)))["routes"]
    assert routes["sim"] == ["model-sim-all"]


def test_a_plan_without_models_waits_for_the_envoys_only() -> None:
    assert document(replace(platform_plan(), models=()))["routes"] == {}


def test_a_service_without_weight_is_not_waited_for() -> None:
    plan = platform_plan(simulated=())
    (model,) = plan.models
    backends = [{"service": "model-b"}, {"service": "model-a"}, {"service": "model-c"}]
    weighted = [{**each, "weight": at} for at, each in enumerate(backends)]
    changed = replace(model, route={**model.route, "backends": weighted})
    assert document(replace(plan, models=(changed,)))["routes"] == {
        "smollm2": ["model-a", "model-c"]
    }


@pytest.mark.thorough
def test_a_thousand_models_of_the_longest_names_fit_into_a_variable_of_the_environment() -> None:
    plan = platform_plan(simulated=())
    (model,) = plan.models
    names = [f"{number:04}".rjust(LONGEST_NAME, "m") for number in range(1000)]
    models = tuple(_named(model, name) for name in names)
    made = json.dumps(document(replace(plan, models=models)))
    assert len(made) + len("SLIPWAY_DOCUMENT=") < LONGEST_VARIABLE


def _named(model: Any, name: str) -> Any:
    route = {**model.route, "backends": [{"service": f"model-{name}-0a1b2c", "weight": 100}]}
    return replace(model, name=name, route=route)
