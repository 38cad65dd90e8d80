"""What policies read of the example fleets."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from slipway.inputs import load_inputs
from slipway.planner.reports.facts import fleet_facts
from stacks.planning import make_plan
from tests.schemas import validate
from tests.unit.plan.samples import ROOT

SCHEMA = json.loads((ROOT / "schemas/facts.schema.json").read_text())
FLEETS = ("aws", "metal")


@cache
def facts_of(name: str) -> dict[str, dict[str, Any]]:
    """Name -> resource."""
    inputs = load_inputs(ROOT, name)
    plan = make_plan(inputs, today=datetime.date(2026, 11, 21))
    return {each["name"]: {**each, "inputs": each["inputs"]["facts"]} for each in fleet_facts(plan)}


@pytest.mark.parametrize("name", FLEETS)
def test_the_facts_of_a_fleet_keep_the_schema(name: str) -> None:
    resources = facts_of(name)
    kinds = [resource["type"].rpartition(":")[2] for resource in resources.values()]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "Platform": 1,
        "NodePool": 4 if name == "aws" else 3,  # with that of the gateway
        "ModelService": 12,
    }
    for resource, kind in zip(resources.values(), kinds, strict=True):
        validate(resource["inputs"], "facts", kind)
        assert set(resource["inputs"]) <= set(SCHEMA["$defs"][kind]["properties"])
        assert json.loads(json.dumps(resource)) == resource


@pytest.mark.parametrize("name", FLEETS)
def test_an_environment_at_its_maximum_costs_no_less_than_at_its_minimum(name: str) -> None:
    cost = facts_of(name)["platform"]["inputs"]["cost"]
    assert 0 <= cost["usd_per_hour"] <= cost["usd_per_hour_at_most"]


def test_a_cloud_pools_facts_are_its_configuration_and_its_plan() -> None:
    settings = load_inputs(ROOT, "aws").environment.settings
    pool = facts_of("aws")["pool-h100"]["inputs"]
    declared = settings.pools["h100"]
    assert pool["accelerator"] == "H100-80"
    assert pool["capacity"]["market"] == declared.market  # type: ignore[union-attr]
    assert pool["capacity"]["quota_nodes"] == declared.quota  # type: ignore[union-attr]
    assert pool["capacity"]["nodes_max"] == declared.nodes.max  # type: ignore[union-attr]


def test_instances_with_efa_have_a_fabric_for_rdma() -> None:
    resources = facts_of("aws")
    fabrics = {
        resource["inputs"]["pool"]: resource["inputs"]["capacity"]["fabric"]
        for resource in resources.values()
        if resource["type"].endswith("ModelService")
    }
    assert fabrics["h100"] == "efa"


def test_a_models_own_licence_goes_before_its_architectures() -> None:
    inputs = load_inputs(ROOT, "aws")
    tuned = inputs.models["llama-3-1-8b"]
    tuned = replace(tuned, settings=tuned.settings.model_copy(update={"license": "CC-BY-4.0"}))
    inputs = replace(inputs, models={**inputs.models, "llama-3-1-8b": tuned})
    plan = make_plan(inputs, today=datetime.date(2026, 11, 21))
    licences = {each["name"]: each["inputs"]["facts"].get("license") for each in fleet_facts(plan)}
    assert licences["model-llama-3-1-8b"] == "CC-BY-4.0"
    assert licences["model-llama-3-3-70b"] == "llama3.3"
