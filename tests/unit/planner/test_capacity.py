from __future__ import annotations

import datetime
from bisect import bisect_left
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.config.calibration import CalibrationSettings
from slipway.config.errors import ConfigError, Problem
from slipway.inputs import PlanInputs
from slipway.plan.platform import ModelPlan, PlatformPlan
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs
from tests.unit.planner.fleets import H100, L4, L40S, OWNED, engine, fleet, model_file

FEW = {"requests_per_s": 0.1, "input_tokens": 100, "output_tokens": 20}
PRICES = datetime.date(2026, 11, 21)  # of the catalog's instances


def _model(inputs: PlanInputs) -> ModelPlan:
    (model,) = make_plan(inputs).models
    return model


def _problem(inputs: PlanInputs) -> Problem:
    with pytest.raises(ConfigError) as caught:
        make_plan(inputs)
    (problem,) = caught.value.problems
    return problem


def _refused(model: ModelPlan) -> dict[str, str]:
    return {refusal.pool: "; ".join(refusal.reasons) for refusal in model.refused}


def _all_warnings(plan: PlatformPlan) -> str:
    return "\n".join([*plan.warnings, *(text for model in plan.models for text in model.warnings)])


# Which pool.


def test_the_same_inputs_give_the_same_plan() -> None:
    inputs = fleet(model_file(), model_file(name="other"), pools={"h100": H100, "l40s": L40S})
    assert make_plan(inputs) == make_plan(inputs)


def test_the_cheapest_pool_wins_and_the_other_says_what_it_costs() -> None:
    model = _model(fleet(pools={"h100": H100, "l40s": L40S}))
    assert model.pool == "l40s"
    cost = model.cost.usd_per_hour.value
    assert f"not {cost:.2f} as l40s" in _refused(model)["h100"]


def test_a_pool_whose_accelerators_are_too_small_is_refused_with_the_missing_memory() -> None:
    seventy = model_file("llama-3.1-70b", engine=engine("llama-3.1-70b", quantization="fp8"))
    model = _model(fleet(seventy, pools={"h100": H100, "l4": L4}))
    assert model.pool == "h100"
    assert "exceed the 19.9 GiB usable on L4" in _refused(model)["l4"]


def test_the_planner_splits_a_model_that_states_no_layout_and_obeys_one_that_does() -> None:
    free = model_file("llama-3.1-70b", engine=engine("llama-3.1-70b", quantization="fp8"))
    assert _model(fleet(free)).layout.tensor > 1
    assert _model(fleet(free | {"parallel": {"tensor": 8}})).layout.tensor == 8


@pytest.mark.parametrize(
    ("architecture", "tensor", "reason"),
    [
        ("phi-4", 4, "10 KV heads can be neither divided over nor replicated on 4 devices"),
        ("qwen2.5-7b", 8, "28 attention heads cannot be divided by 8"),
        ("llama-3.1-70b", 1, "exceed the"),
    ],
)
def test_a_model_that_fits_nowhere_is_refused_with_the_reason(
    architecture: str, tensor: int, reason: str
) -> None:
    model = model_file(architecture, engine=engine(architecture), parallel={"tensor": tensor})
    problem = _problem(fleet(model))
    assert (problem.source, problem.key) == ("Pulumi.fleet.yaml", "slipway:models.chat.pools")
    assert reason in problem.message
    assert "models/chat.yaml" in problem.fix


@pytest.mark.parametrize("layout", [{}, {"parallel": {"tensor": 3}}])
def test_a_pool_that_serves_nothing_says_only_that_and_once(layout: dict[str, Any]) -> None:
    trainium = {"kind": "aws", "instance": "trn1.2xlarge", "nodes": {"min": 0, "max": 4}}
    message = _problem(fleet(model_file() | layout, pools={"trn": trainium})).message
    assert message.count("not served here: trn1") == 1
    assert "TP" not in message
    assert "divided" not in message
    both = _model(fleet(pools={"h100": H100, "trn": trainium}))
    assert _refused(both)["trn"].startswith("not served here: trn1")


def test_a_checkpoint_that_is_padded_for_its_groups_is_planned_with_the_padding() -> None:
    name = "qwen2.5-72b"
    padded = fleet(
        model_file(name, engine=engine(name, quantization="awq"), parallel={"tensor": 1})
    )
    models = dict(padded.catalog.models)
    models[name] = models[name].model_copy(update={"checkpoints": ()})
    unpadded = replace(padded, catalog=replace(padded.catalog, models=models))
    added = _model(padded).memory.weights_bytes - _model(unpadded).memory.weights_bytes
    columns = 29_696 - 29_568  # of three matrices in 80 layers, 4 bits and a share of 20 for 128
    assert added == pytest.approx(80 * 3 * 8192 * columns * (4 + 20 / 128) / 8, abs=1)


def test_a_reason_that_several_pools_have_is_told_once() -> None:
    model = model_file("phi-4", engine=engine("phi-4"), parallel={"tensor": 3})
    message = _problem(fleet(model, pools={"h100": H100, "l40s": L40S})).message
    assert message.startswith("cannot run chat: h100, l40s: TP3: ")
    assert message.count("40 attention heads cannot be divided by 3") == 1


def test_a_pool_within_the_goal_beats_a_cheaper_one_that_misses_it() -> None:
    quick = model_file(slo={"ttft_p95_ms": 1000, "tpot_p95_ms": 12})
    model = _model(fleet(quick, pools={"h100": H100, "l4": L4}))
    assert (model.pool, model.meets_goal) == ("h100", True)
    assert "misses the goal even with a single request" in _refused(model)["l4"]


def test_a_goal_no_pool_keeps_is_a_missed_goal_not_a_mistake() -> None:
    model = _model(fleet(model_file(slo={"tpot_p95_ms": 1})))
    assert model.meets_goal is False
    assert "misses the goal even with a single request" in "".join(model.warnings)


def test_too_few_replicas_allowed_miss_the_goal_and_say_how_many_would_do() -> None:
    heavy = model_file(load={"requests_per_s": 200, "input_tokens": 800, "output_tokens": 200})
    model = _model(fleet(heavy, replicas={"min": 1, "max": 2}))
    assert model.meets_goal is False
    assert "replicas.max is 2" in "".join(model.warnings)


def _within(ttft_ms: int) -> ModelPlan:
    chat = model_file(slo={"ttft_p95_ms": ttft_ms}, parallel={"tensor": 1})
    return _model(fleet(chat, pools={"l40s": L40S}, replicas={"min": 1, "max": 1}))


def _sustains(model: ModelPlan) -> float:
    assert model.serving is not None
    return model.serving.requests_per_s.value


def test_where_the_goal_only_just_holds_no_more_replicas_are_asked_for_than_are_allowed() -> None:
    just_ms = bisect_left(range(1000), 1, key=lambda ms: bool(_sustains(_within(max(1, ms)))))
    tight, loose = _within(just_ms), _within(3 * just_ms)
    assert "a single request takes most of the goal" in "".join(tight.warnings)
    assert tight.replicas_needed.value == 1
    assert "any second request" in tight.replicas_needed.source
    assert _sustains(loose) > 10 * _sustains(tight) > 0
    assert "single request" not in "".join(loose.warnings)


def test_a_model_goes_to_the_next_pool_when_the_cheapest_is_full() -> None:
    pools = {"l40s": L40S | {"nodes": {"max": 1}}, "h100": H100}
    few = {"requests_per_s": 1, "input_tokens": 800, "output_tokens": 200}
    chats = [model_file(name=name, parallel={"tensor": 4}, load=few) for name in ("one", "two")]
    plan = make_plan(fleet(*chats, pools=pools))
    assert [model.pool for model in plan.models] == ["l40s", "h100"]
    assert (
        "with one would take 2 nodes, but the pool has at most 1"
        in _refused(plan.models[1])["l40s"]
    )


def _beside_a_model_of_two_devices(**pools: Any) -> ModelPlan:
    """A model that meets its TPOT goal only on 4 devices."""
    one = model_file(name="one", parallel={"tensor": 2}, load=FEW)
    quick = model_file(name="quick", slo={"tpot_p95_ms": 9}, load=FEW)
    on_first = {"one": {"pools": [next(iter(pools))]}}
    plan = make_plan(fleet(one, quick, pools=pools, deployments=on_first))
    return next(model for model in plan.models if model.name == "quick")


def test_a_layout_that_has_room_is_used_where_the_best_one_has_none() -> None:
    roomy = _beside_a_model_of_two_devices(l40s=L40S)
    assert (roomy.layout.tensor, roomy.meets_goal) == (4, True)
    assert "no room" not in "".join(roomy.warnings)
    narrow = _beside_a_model_of_two_devices(l40s=L40S | {"nodes": {"max": 1}})
    assert (narrow.layout.tensor, narrow.meets_goal) == (1, False)
    assert (
        "runs as TP1: its pool has no room for a better layout (TP4: 1 replica with one would"
        " take 2 nodes, but the pool has at most 1)"
    ) in narrow.warnings


def test_another_pool_that_meets_the_goal_comes_before_a_layout_that_misses_it() -> None:
    cheap = L40S | {"nodes": {"max": 1}, "usd_per_hour": 4}
    model = _beside_a_model_of_two_devices(l40s=cheap, h100=H100)
    assert (model.pool, model.meets_goal) == ("h100", True)
    assert _refused(model)["l40s"].startswith("TP4: 1 replica with one would take 2 nodes")


def test_of_equally_priced_pools_the_one_of_smaller_nodes_is_used() -> None:
    """Both cost 6.88 USD/h a device."""
    small = H100 | {"instance": "p5.4xlarge"}
    model = _model(fleet(pools={"large": H100, "small": small}))
    assert (model.pool, model.layout.devices) == ("small", 1)
    assert "larger nodes" in _refused(model)["large"]


def test_minimums_that_no_pool_has_room_for_are_refused() -> None:
    inputs = fleet(pools={"l4": L4 | {"nodes": {"max": 2}}}, replicas={"min": 3, "max": 3})
    problem = _problem(inputs)
    assert problem.key == "slipway:models.chat.pools"
    assert "3 replicas would take 3 devices, but the pool has at most 2" in problem.message


def test_maximums_beyond_the_pool_are_warned_of() -> None:
    quiet = model_file()
    del quiet["load"]
    pools = {"h100": H100 | {"nodes": {"max": 1}}}
    inputs = fleet(quiet, pools=pools, replicas={"min": 1, "max": 17})
    assert "all maximums together need 3 nodes; it has at most 1" in _all_warnings(
        make_plan(inputs)
    )


# How many, and what it costs.


def test_replicas_follow_the_load() -> None:
    needed = [
        _model(
            fleet(
                model_file(load={"requests_per_s": rate, "input_tokens": 800, "output_tokens": 200})
            )
        ).replicas_needed.value
        for rate in (1, 20, 200)
    ]
    assert needed == sorted(needed)
    assert needed[0] == 1
    assert needed[-1] > 2


def test_the_cost_of_a_model_is_its_share_of_the_node_and_the_pools_is_whole_nodes() -> None:
    plan = make_plan(fleet(replicas={"min": 1, "max": 1}))
    (model,), (pool,) = plan.models, plan.pools
    assert model.layout.devices == 1
    assert model.cost.usd_per_hour.value == pytest.approx(55.04 / 8)
    assert pool.usd_per_hour.value == plan.cost.usd_per_hour.value == pytest.approx(55.04)
    assert plan.cost.usd_per_month.value == pytest.approx(55.04 * 730)
    tokens = model.cost.usd_per_million_output_tokens
    assert tokens is not None
    assert tokens.value == pytest.approx(55.04 / 8 / (4 * 200 * 3600) * 1e6)
    assert plan.cost.price_date == PRICES.isoformat()


@pytest.mark.parametrize(("days", "warned"), [(90, False), (91, True)])
def test_a_price_older_than_90_days_is_warned_of(days: int, warned: bool) -> None:
    plan = make_plan(fleet(), today=PRICES + datetime.timedelta(days=days))
    assert (f"the price of p5.48xlarge is {days} days old" in _all_warnings(plan)) is warned


def test_prices_have_their_age_on_the_day_of_planning() -> None:
    plan = make_plan(fleet(), today=PRICES + datetime.timedelta(days=12))
    assert [each.price_age_days for each in (plan.cost, plan.models[0].cost)] == [12, 12]
    undated = make_plan(fleet())
    assert [each.price_age_days for each in (undated.cost, undated.models[0].cost)] == [None, None]


def test_a_declared_price_has_no_age_and_wins() -> None:
    plan = make_plan(
        fleet(pools={"h100": H100 | {"usd_per_hour": 20}}), today=datetime.date(2030, 1, 1)
    )
    assert plan.pools[0].usd_per_hour.value == 20
    assert plan.cost.price_age_days is None
    assert "days old" not in _all_warnings(plan)


def test_a_market_without_a_known_price_is_planned_with_the_listed_one_and_says_so() -> None:
    plan = make_plan(fleet(pools={"h100": H100 | {"market": "spot"}}))
    assert "no spot price is known" in _all_warnings(plan)


def test_owned_machines_without_a_price_are_free_and_say_so() -> None:
    plan = make_plan(fleet(pools={"own": OWNED}))
    assert plan.cost.usd_per_hour.value == 0
    assert "counted as free" in _all_warnings(plan)


def test_an_instance_without_any_price_asks_for_one() -> None:
    problem = _problem(fleet(pools={"h200": H100 | {"instance": "p5e.48xlarge"}}))
    assert problem.key == "slipway:pools.h200"
    assert "usd_per_hour" in problem.fix


def test_an_unknown_instance_offers_the_nearest() -> None:
    problem = _problem(fleet(pools={"h100": H100 | {"instance": "p5.48xlrge"}}))
    assert problem.key == "slipway:pools.h100.instance"
    assert problem.fix.startswith('did you mean "p5.48xlarge"')


def test_a_paid_pool_that_no_model_uses_is_warned_of() -> None:
    idle = {"h100": H100, "l4": L4 | {"nodes": {"min": 1, "max": 2}}}
    plan = make_plan(fleet(pools=idle, deployments={"chat": {"pools": ["h100"]}}))
    assert "pool l4: no model uses it; it costs 0.81 USD/h" in _all_warnings(plan)
    assert "no model uses it" not in _all_warnings(make_plan(fleet(pools={"h100": H100})))


def test_more_than_the_budget_is_warned_of() -> None:
    plan = make_plan(fleet(budget={"usd_per_hour": 10}))
    assert "the budget is 10" in _all_warnings(plan)
    assert "budget" not in _all_warnings(make_plan(fleet(budget={"usd_per_hour": 100})))


# What is not declared is not promised.


def test_without_a_load_there_is_memory_and_cost_but_no_promise() -> None:
    values = model_file()
    del values["load"]
    model = _model(fleet(values, replicas={"min": 2, "max": 2}))
    assert model.serving is None
    assert model.meets_goal is None
    assert model.cost.usd_per_million_output_tokens is None
    assert model.replicas_needed.basis == "declared"
    assert model.memory.kv_tokens > 8192


def test_without_a_goal_nothing_is_met_or_missed() -> None:
    assert _model(fleet(model_file(slo={}))).meets_goal is None


def test_every_promised_number_says_where_it_comes_from() -> None:
    model = _model(fleet())
    assert model.serving is not None
    figures = [
        model.serving.ttft_ms,
        model.serving.tpot_ms,
        model.serving.requests_per_s,
        model.replicas_needed,
        *model.cold_start.parts.values(),
        model.cost.usd_per_hour,
    ]
    assert all(figure.source and figure.unit for figure in figures)
    for figure in figures:
        if figure.basis == "estimate" and figure.low is not None and figure.high is not None:
            assert figure.low <= figure.value <= figure.high


def _row(**where: Any) -> dict[str, Any]:
    return {
        "model": "llama-3.1-8b",
        "date": "2026-11-21",
        "machine": "a test",
        "versions": {"vllm": "0.32.0"},
        "serving": {
            "requests_per_s": 4,
            "input_tokens": 800,
            "output_tokens": 200,
            "ttft_ms": 77,
            "tpot_ms": 11,
        },
    } | where


def test_a_measured_row_replaces_the_estimate_and_the_plan_says_so() -> None:
    inputs = fleet(model_file(parallel={"tensor": 1}))
    estimated = _model(inputs)
    rows = CalibrationSettings.model_validate(
        {"schema_version": 1, "rows": [_row(accelerator="H100-80")]}, strict=False
    )
    measured = _model(replace(inputs, calibration=rows))
    assert estimated.serving is not None
    assert measured.serving is not None
    assert estimated.serving.ttft_ms.basis == "estimate"
    assert measured.serving.ttft_ms.basis == "measured"
    assert "a test" in measured.serving.ttft_ms.source


def test_a_long_prompt_that_misses_the_goal_by_itself_is_warned_of() -> None:
    load = {
        "requests_per_s": 0.5,
        "input_tokens": {"p50": 300, "p95": 7000},
        "output_tokens": 200,
    }
    slow = model_file(load=load, slo={"ttft_p95_ms": 800})
    model = _model(fleet(slow, pools={"l4": L4}))
    assert "a prompt of the 95th percentile (7000 tokens)" in "".join(model.warnings)


def test_prompts_that_the_engine_refuses_are_warned_of() -> None:
    load = {
        "requests_per_s": 0.5,
        "input_tokens": {"p50": 300, "p95": 9000},
        "output_tokens": 200,
    }
    model = _model(fleet(model_file(load=load)))
    assert "9000 tokens; the engine refuses" in "".join(model.warnings)


# On this machine.


def test_dev_has_memory_and_no_cost_and_says_that_nothing_was_measured() -> None:
    plan = make_plan(dev_inputs())
    (model,) = plan.models
    assert (model.name, model.pool, model.accelerator) == ("smollm2", "cpu", "")
    assert plan.cost.usd_per_hour.value == 0
    assert model.memory.kv_tokens == 23_301
    assert model.serving is None
    assert "--calibrate" in _all_warnings(plan)


def test_a_measured_row_gives_dev_its_promise() -> None:
    row = _row(model="smollm2-135m", precision={"weights": "fp32", "kv": "fp32"})
    rows = CalibrationSettings.model_validate({"schema_version": 1, "rows": [row]}, strict=False)
    (model,) = make_plan(replace(dev_inputs(), calibration=rows)).models
    assert model.serving is not None
    assert model.serving.tpot_ms.basis == "measured"
    assert model.replicas_needed.basis == "measured"
    assert model.meets_goal is True
    assert model.utilization > 0


# Whatever the numbers.


@settings(max_examples=25)
@given(
    rate=st.floats(0.1, 60),
    prompt=st.integers(16, 4000),
    answer=st.integers(1, 2000),
    least=st.integers(1, 3),
)
def test_a_plan_keeps_its_own_limits(rate: float, prompt: int, answer: int, least: int) -> None:
    load = {"requests_per_s": rate, "input_tokens": prompt, "output_tokens": answer}
    plan = make_plan(
        fleet(
            model_file(load=load),
            pools={"h100": H100, "l40s": L40S},
            replicas={"min": least, "max": 8},
        )
    )
    (model,) = plan.models
    assert model.cost.usd_per_hour.value <= plan.cost.usd_per_hour.value + 1e-9
    assert 0 < model.memory.kv_cache_bytes <= model.memory.usable_bytes
    assert model.utilization >= 0
    assert model.cold_start.total_s.value == pytest.approx(
        sum(part.value for part in model.cold_start.parts.values())
    )
    assert {refusal.pool for refusal in model.refused} | {model.pool} == {"h100", "l40s"}
