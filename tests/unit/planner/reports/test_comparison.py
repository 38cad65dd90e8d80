"""What a plan promised beside what was measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from slipway.inputs import load_inputs
from slipway.plan.platform import PlatformPlan
from slipway.planner.reports.comparison import (
    Comparison,
    Measured,
    MeasuredDevices,
    compare,
    compare_names,
)
from stacks.planning import make_plan

ROOT = Path(__file__).parents[4]
SEEN = Measured(
    window_s=600,
    jobs=("model-smollm2-3f9c1a",),
    replicas=2,
    requests_per_s=3.0,
    output_tokens_per_s=600.0,
    concurrency=4.0,
    kv_cache_usage=0.25,
    kv_tokens=23_296,
    devices=None,
    input_tokens=200.0,
    output_tokens=200.0,
    ttft_ms=120.0,
    tpot_ms=11.0,
    ttft_p95_ms=300.0,
    tpot_p95_ms=14.0,
)
ON_DEVICES = dataclasses.replace(
    SEEN,
    devices=MeasuredDevices(
        models=("NVIDIA L4",), drivers=("580.95.05",), used_bytes=int(76.5 * 2**30)
    ),
)


def rows_of(plan: PlatformPlan, model: str, seen: Measured | None) -> dict[str, Comparison]:
    found = compare(plan, {model: seen} if seen else {})
    return {row.quantity: row for row in found if row.model == model}


def fleet() -> PlatformPlan:
    return make_plan(load_inputs(ROOT, "aws"))


def promised(plan: PlatformPlan) -> str:
    return next(model.name for model in plan.models if model.serving is not None)


def test_every_promise_stands_beside_its_measurement() -> None:
    plan = fleet()
    rows = rows_of(plan, promised(plan), ON_DEVICES)
    assert rows["TTFT"].measured == 120.0
    assert rows["TPOT"].measured == 11.0
    assert rows["KV cache in use"].measured == 25.0
    assert rows["output tokens/s of a replica"].measured == 300.0
    assert rows["replicas"].measured == 2
    assert rows["KV tokens of a replica"].measured == 23_296
    assert rows["memory in use on a device"].measured == 76.5
    assert all(row.promised is not None for row in rows.values())


def test_a_measurement_is_within_when_it_is_between_the_error_bars() -> None:
    plan = fleet()
    model = promised(plan)
    ttft = rows_of(plan, model, SEEN)["TTFT"]
    assert ttft.low is not None
    assert ttft.high is not None
    inside = dataclasses.replace(SEEN, ttft_ms=(ttft.low + ttft.high) / 2)
    outside = dataclasses.replace(SEEN, ttft_ms=ttft.high * 1.01)
    assert rows_of(plan, model, inside)["TTFT"].within is True
    assert rows_of(plan, model, outside)["TTFT"].within is False


def test_a_model_that_was_promised_nothing_shows_what_it_did() -> None:
    plan = make_plan(load_inputs(ROOT, "dev"))
    (model,) = plan.models
    assert model.serving is None
    rows = rows_of(plan, model.name, SEEN)
    measured = {name: (row.promised, row.measured, row.unit) for name, row in rows.items()}
    assert measured["TTFT"] == (None, 120.0, "ms")
    assert measured["TPOT"] == (None, 11.0, "ms")
    assert measured["output tokens/s of a replica"] == (None, 300.0, "tokens/s")
    assert rows["TTFT"].within is None


def test_a_model_that_served_nothing_has_promises_only() -> None:
    plan = fleet()
    rows = rows_of(plan, promised(plan), None)
    assert {row.measured for row in rows.values()} == {None}
    assert {row.ratio for row in rows.values()} == {None}
    assert {row.within for row in rows.values()} == {None}


def test_twice_the_replicas_cost_twice_as_much() -> None:
    plan = fleet()
    model = next(each for each in plan.models if each.cost.usd_per_hour.value)
    seen = dataclasses.replace(SEEN, replicas=2 * model.stable.scaling.min_replicas)
    assert rows_of(plan, model.name, seen)["cost"].ratio == 2.0


def test_the_kv_tokens_of_an_estimate_may_be_off_by_its_error() -> None:
    plan = fleet()
    model = next(each for each in plan.models if each.name == promised(plan))
    row = rows_of(plan, model.name, SEEN)["KV tokens of a replica"]
    tokens = model.memory.kv_tokens
    assert (row.promised, row.basis) == (tokens, "estimate")
    assert row.low is not None
    assert row.high is not None
    assert row.high - tokens == pytest.approx(tokens - row.low)
    share = model.memory.error_bytes / model.memory.kv_cache_bytes
    assert row.high == pytest.approx((1 + share) * tokens)


def test_the_kv_tokens_of_a_stated_cache_are_exact_and_there_is_no_device() -> None:
    plan = make_plan(load_inputs(ROOT, "dev"))
    (model,) = plan.models
    rows = rows_of(plan, model.name, SEEN)
    row = rows["KV tokens of a replica"]
    assert (row.promised, row.measured, row.basis) == (23_301, 23_296, "exact")
    assert (row.low, row.high, row.within) == (None, None, None)
    assert "memory in use on a device" not in rows
    assert compare_names(plan, {model.name: SEEN}) == ()


def test_a_device_and_its_driver_stand_beside_the_accelerator_and_the_oldest_driver() -> None:
    plan = fleet()
    model = next(each for each in plan.models if each.accelerator_vendor == "nvidia")
    shown = {
        name.quantity: (name.promised, name.measured)
        for name in compare_names(plan, {model.name: ON_DEVICES})
        if name.model == model.name
    }
    assert shown == {
        "device": (model.accelerator, "NVIDIA L4"),
        "driver": (f"at least {model.replica.driver}", "580.95.05"),
    }
    assert {name.measured for name in compare_names(plan, {})} == {""}
