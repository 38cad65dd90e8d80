from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slipway.config.files import load_models
from slipway.plan.draft import ModelDraft
from slipway.scaffold.adding import add_existing, add_model
from slipway.scaffold.request import RefusedError, Weights
from slipway.scaffold.surroundings import Surroundings
from tests.unit.plan.samples import ROOT, dev_inputs
from tests.unit.planner.fleets import CATALOG, L4, L40S, fleet
from tests.unit.scaffold.environments import request, surroundings

ONE = {"min": 1, "max": 1}


def roomy(**pools: Mapping[str, Any]) -> Surroundings:
    """With one replica of another model."""
    return Surroundings(inputs=fleet(pools=pools, replicas=ONE))


def planned(model: str, around: Surroundings, **changes: Any) -> ModelDraft:
    asked = request("aws", model, CATALOG.models[model], **changes)
    return add_model(asked, around).planned


def test_published_weights_on_few_devices_come_before_narrower_ones() -> None:
    around = roomy(l4=L4, l40s=L40S)
    # 9 billion parameters in 16 bits leave an L4 a tiny cache, and an L40S enough.
    chosen = planned("gemma-2-9b", around)
    assert (chosen.pool, chosen.precision.weights) == ("l40s", "bf16")
    only_small = roomy(l4=L4)
    assert planned("gemma-2-9b", only_small).precision.weights == "fp8"


def test_a_load_that_needs_more_replicas_than_usual_gets_them() -> None:
    around = roomy(l40s=L40S)
    heavy = {"requests_per_s": 30, "input_tokens": 800, "output_tokens": 200}
    chosen = planned("qwen3-8b", around, load=heavy)
    assert chosen.scaling.min_replicas > 3
    assert chosen.scaling.max_replicas >= chosen.replicas_needed.value
    assert chosen.meets_goal


def test_a_goal_that_no_pool_can_keep_is_refused() -> None:
    around = roomy(l4=L4)
    with pytest.raises(RefusedError) as caught:
        planned("llama-3.1-8b", around, goal={"ttft_p95_ms": 2000, "tpot_p95_ms": 1})
    assert "relax --ttft-p95-ms and --tpot-p95-ms" in caught.value.fix


def test_the_budget_is_kept_and_the_refusal_says_what_it_would_have_to_be() -> None:
    cost = roomy(l40s=L40S).usd_per_hour
    budget = {"usd_per_hour": cost - 0.01}
    tight = fleet(pools={"l40s": L40S}, replicas=ONE, budget=budget)
    with pytest.raises(RefusedError, match=r"slipway:budget\.usd_per_hour is") as caught:
        planned("qwen2.5-32b", Surroundings(inputs=tight))
    assert "have slipway:budget.usd_per_hour raised to" in caught.value.fix


def test_following_the_advice_of_a_refusal_makes_room() -> None:
    """hosts has one worker, whose cores smollm2 may take all."""
    around = surroundings("hosts")
    asked = request("hosts", "smollm2-135m", CATALOG.models["smollm2-135m"])
    with pytest.raises(RefusedError) as caught:
        add_model(asked, around)
    assert caught.value.fix == "lower replicas.max of smollm2 from 2 to 1 in Pulumi.hosts.yaml"
    settings = around.inputs.environment.settings
    smollm2 = settings.models["smollm2"]
    fewer = smollm2.model_copy(update={"replicas": smollm2.replicas.model_copy(update={"max": 1})})
    environment = replace(
        around.inputs.environment,
        settings=settings.model_copy(update={"models": {"smollm2": fewer}}),
    )
    roomy = Surroundings(inputs=replace(around.inputs, environment=environment))
    assert add_model(asked, roomy).planned.scaling.max_replicas == 1


def test_a_simulated_engine_serves_what_no_pool_could_hold() -> None:
    weights = Weights(
        source=None,
        stated="llama-3.1-8b",
        known_as="llama-3.1-8b",
        architecture=CATALOG.models["llama-3.1-8b"],
    )
    asked = request("dev", "llama-3.1-8b", weights.architecture, weights=weights)
    made = add_model(asked, Surroundings(inputs=dev_inputs()))
    assert made.model is not None
    assert made.model["engine"]["kind"] == "sim"
    assert "source" not in made.model


def test_a_pool_that_does_not_exist_is_refused_with_those_that_do() -> None:
    asked = request("dev", "smollm2-135m", CATALOG.models["smollm2-135m"], pools=("gpu",))
    with pytest.raises(RefusedError, match="no pool gpu") as caught:
        add_model(asked, surroundings("dev"))
    assert "cpu" in caught.value.fix


def test_a_file_that_is_there_is_served_as_it_is() -> None:
    files = load_models(ROOT, "models")
    inputs = roomy(l4=L4, l40s=L40S).inputs
    asked = request("aws", "qwen3-8b", CATALOG.models["qwen3-8b"], name="qwen3-8b", load=None)
    made = add_existing(asked, files["qwen3-8b"], Surroundings(inputs=inputs))
    assert made.model is None
    assert made.planned.precision.weights == "fp8"  # of its file
    # 4 requests/s of long answers need more than the usual two.
    assert made.planned.scaling.max_replicas >= made.planned.replicas_needed.value
