"""What every engine states in its own folder."""

from __future__ import annotations

import dataclasses
import re

import pytest

from slipway.config.artifacts import REQUIREMENTS
from slipway.inputs import load_inputs
from slipway.plan.platform import PROTOCOLS
from slipway.planner.engines.adapter import EnginePlan
from slipway.planner.engines.registry import ENGINES, engine_of
from stacks.planning import make_plan
from tests.unit.plan.samples import ROOT


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(EnginePlan)])
def test_nothing_about_an_engine_is_assumed(field: str) -> None:
    (found,) = [each for each in dataclasses.fields(EnginePlan) if each.name == field]
    assert found.default is dataclasses.MISSING


@pytest.mark.parametrize("environment", ["dev", "aws", "metal"])
def test_replicas_get_the_environments_and_protocols_that_their_engine_states(
    environment: str,
) -> None:
    inputs = load_inputs(ROOT, environment)
    for model in make_plan(inputs).models:
        engine, replica = engine_of(inputs.models[model.name]), model.replica
        made = {folder.rpartition("-")[0] for folder in replica.environments.values()}
        assert made <= engine.environments.keys()
        assert set(model.protocols) <= set(PROTOCOLS)
        weights = replica.weights
        assert weights is None or weights.python in replica.environments


def test_what_is_made_for_processors_does_not_reach_accelerators_nor_the_other_way_round() -> None:
    models = [
        model for name in ("dev", "metal") for model in make_plan(load_inputs(ROOT, name)).models
    ]
    engines = {model.accelerator_vendor: set[str]() for model in models}
    for model in models:
        folder = model.replica.environments.get("vllm", "")
        engines[model.accelerator_vendor].add(folder.rpartition("-")[0])
    assert (engines[""], engines["nvidia"]) == ({"vllm"}, {"vllm_cuda"})


@pytest.mark.parametrize("kind", ENGINES)
def test_the_package_that_gives_an_environment_its_version_is_pinned_there(kind: str) -> None:
    for environment, package in ENGINES[kind].environments.items():
        assert f"{package}==" in (ROOT / REQUIREMENTS[environment]).read_text()


def test_the_simulator_reports_every_metric_that_is_read() -> None:
    source = (ROOT / "services/engine_sim/simulator/metrics.py").read_text()
    named = dataclasses.asdict(ENGINES["sim"].metrics)
    told_in_a_label = named.pop("kv_tokens")
    for name in (*named.values(), *told_in_a_label.values()):
        bare = name.removeprefix("vllm:").removesuffix("_total")
        assert re.search(f'"(vllm:)?{bare}"', source), name


@pytest.mark.parametrize("environment", ["dev", "aws"])
def test_the_program_that_prepares_weights_is_in_the_bundle_of_the_replica(
    environment: str,
) -> None:
    for model in make_plan(load_inputs(ROOT, environment)).models:
        service = model.replica.bundle.rpartition("-")[0]
        assert model.replica.weights is not None
        assert (ROOT / "services" / service / model.replica.weights.entrypoint).is_file()
