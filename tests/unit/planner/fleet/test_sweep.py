from __future__ import annotations

import datetime
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.fleet import FleetSettings
from slipway.plan.figures import Figure, Layout, Precision
from slipway.plan.platform import LatencyGoal
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.sweep import (
    LEAST_GAIN,
    NO_GOAL,
    Point,
    Sweep,
    precisions,
    priced_supplies,
    sweep,
    with_pareto,
)
from slipway.planner.supply.supplies import plan_hosts
from tests.unit.planner.fleets import CATALOG, H100, L4, engine, fleet, model_file

BF16, FP8, AWQ = (Precision(weights=weights) for weights in ("bf16", "fp8", "awq"))


def _demand(architecture: str = "llama-3.1-8b", **engine_changes: Any) -> Demand:
    inputs = fleet(model_file(architecture, engine=engine(architecture, **engine_changes)))
    settings = inputs.environment.settings
    assert isinstance(settings, FleetSettings)
    made = plan_demand(
        inputs.models["chat"], settings.models["chat"], CATALOG.models, inputs.traces
    )
    assert isinstance(made, Demand)
    return made


@cache
def _swept(demand: Demand) -> Sweep:
    return sweep(demand, CATALOG)


def _point(
    cost: float,
    answer_s: float,
    precision: Precision = BF16,
    meets_goal: bool | None = None,
    nodes: int = 1,
) -> Point:
    figure = Figure(value=cost, unit="USD/h", basis="declared", source="a test")
    return Point(
        instance="a",
        accelerator="H100-80",
        layout=Layout(),
        precision=precision,
        as_declared=precision == BF16,
        replicas=1,
        nodes=nodes,
        usd_per_hour=figure,
        share_usd_per_hour=figure,
        usd_per_million_output_tokens=figure,
        price_date="",
        price_age_days=None,
        ttft_ms=figure,
        tpot_ms=figure,
        answer_s=answer_s,
        meets_goal=meets_goal,
        pareto=False,
    )


def _front(points: list[Point]) -> list[tuple[float, float, str]]:
    return [
        (point.usd_per_hour.value, point.answer_s, point.precision.weights)
        for point in with_pareto(points)
        if point.pareto
    ]


def test_the_front_by_hand() -> None:
    points = [_point(3, 1), _point(1, 3), _point(2, 3), _point(2, 2), _point(4, 1)]
    front = [(p.usd_per_hour.value, p.answer_s) for p in with_pareto(points) if p.pareto]
    assert front == [(1, 3), (2, 2), (3, 1)]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30))
def test_a_point_is_on_the_front_when_no_other_is_better_in_one_and_no_worse_in_both(
    pairs: list[tuple[int, int]],
) -> None:
    front = {
        (p.usd_per_hour.value, p.answer_s)
        for p in with_pareto([_point(*pair) for pair in pairs])
        if p.pareto
    }
    expected = {
        (cost, answer)
        for cost, answer in pairs
        if not any(c <= cost and a <= answer and (c, a) != (cost, answer) for c, a in pairs)
    }
    assert front == expected


def test_a_dearer_point_is_on_the_front_where_estimates_can_tell_that_it_is_faster() -> None:
    points = [_point(1, 1.0), _point(2, 0.96), _point(3, 0.94), _point(4, 0.9)]
    assert [cost for cost, _, _ in _front(points)] == [1, 3]


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1, max_size=30))
def test_each_point_of_the_front_is_faster_than_the_one_before_by_the_least_gain(
    pairs: list[tuple[int, int]],
) -> None:
    front = _front([_point(*pair) for pair in pairs])
    assert front[0][0] == min(cost for cost, _ in pairs)
    for (cost, slower, _), (dearer, faster, _) in pairwise(front):
        assert cost < dearer
        assert faster <= (1 - LEAST_GAIN) * slower
    fastest = min(answer for _, answer in pairs)
    assert (1 - LEAST_GAIN) * front[-1][1] < fastest or front[-1][1] == fastest


def test_fewer_bits_never_beat_more_and_more_beat_fewer() -> None:
    assert _front([_point(2, 2), _point(1, 1, AWQ)]) == [(1, 1, "awq"), (2, 2, "bf16")]
    assert _front([_point(1, 1), _point(2, 2, AWQ)]) == [(1, 1, "bf16")]
    assert _front([_point(1, 1, FP8), _point(1, 1)]) == [(1, 1, "bf16")]


def test_fewer_bits_of_the_cache_do_not_beat_fewer_bits_of_the_weights() -> None:
    narrow_cache = Precision(weights="bf16", kv="fp8")
    points = [_point(1, 1, narrow_cache), _point(2, 2, FP8), _point(3, 3)]
    assert _front(points) == [(1, 1, "bf16"), (2, 2, "fp8"), (3, 3, "bf16")]


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([BF16, FP8, AWQ])),
        min_size=1,
        max_size=30,
    )
)
def test_a_point_is_on_the_front_when_none_of_as_many_bits_is_better_in_one_and_no_worse_in_both(
    triples: list[tuple[int, int, Precision]],
) -> None:
    wider = {BF16: [], FP8: [BF16], AWQ: [BF16, FP8]}
    expected = {
        (cost, answer, own.weights)
        for cost, answer, own in triples
        if not any(
            c <= cost
            and a <= answer
            and (other in wider[own] or (other == own and (c, a) != (cost, answer)))
            for c, a, other in triples
        )
    }
    assert set(_front([_point(*triple) for triple in triples])) == expected


def test_what_misses_the_goal_is_on_the_front_only_where_everything_misses_it() -> None:
    missed, kept = _point(1, 1, meets_goal=False), _point(2, 2, meets_goal=True)
    assert _front([missed, kept]) == [(2, 2, "bf16")]
    assert _front([missed]) == [(1, 1, "bf16")]


def test_of_equally_good_points_the_one_of_smaller_instances_is_on_the_front() -> None:
    points = with_pareto([_point(8, 1), _point(8, 1, nodes=8)])
    assert [point.nodes for point in points if point.pareto] == [8]


def test_the_price_is_that_of_whole_instances_and_the_share_that_of_the_devices_used() -> None:
    """A p5.48xlarge of 55.04 USD/h has 8 devices."""
    found = _swept(_demand())
    points = {
        (point.instance, point.layout): point
        for point in found.points
        if point.as_declared and point.replicas == 1
    }
    alone, eighth = points["p5.4xlarge", Layout()], points["p5.48xlarge", Layout()]
    assert (alone.nodes, alone.usd_per_hour.value) == (1, 6.88)
    assert (eighth.nodes, eighth.usd_per_hour.value) == (1, 55.04)
    assert alone.share_usd_per_hour.value == eighth.share_usd_per_hour.value == 6.88
    per_token = (each.usd_per_million_output_tokens.value for each in (eighth, alone))
    assert next(per_token) == pytest.approx(8 * next(per_token))
    two_nodes = points["p5.48xlarge", Layout(tensor=8, pipeline=2)]
    assert two_nodes.nodes == 2
    assert two_nodes.usd_per_hour.value == pytest.approx(110.08)


def test_no_share_costs_more_than_what_must_be_bought_for_it() -> None:
    for point in _swept(_demand()).points:
        assert point.share_usd_per_hour.value <= point.usd_per_hour.value * (1 + 1e-9)


def test_every_price_has_its_date_and_its_age() -> None:
    today = datetime.date(2026, 12, 1)
    found = sweep(_demand(), CATALOG, today=today)
    for point in found.points:
        instance = CATALOG.instances[point.instance]
        assert point.price_date == instance.priced_on.isoformat()
        assert point.price_age_days == (today - instance.priced_on).days
    assert {point.price_age_days for point in _swept(_demand()).points} == {None}


def test_the_declared_precision_is_tried_first_then_the_published_and_narrower_ones() -> None:
    declared = _demand(quantization="fp8", kv_cache_dtype="fp8")
    tried = [(each.weights, each.kv) for each in precisions(declared)]
    assert tried[0] == ("fp8", "fp8")
    assert sorted(tried) == sorted(product(("bf16", "fp8", "awq"), ("bf16", "fp8")))


@pytest.mark.parametrize(
    ("changes", "other_name"),
    [({"quantization": "gptq"}, "awq"), ({"dtype": "float16"}, "bf16")],
)
def test_precisions_that_differ_in_name_only_are_tried_once(
    changes: dict[str, str], other_name: str
) -> None:
    tried = precisions(_demand(**changes))
    assert len(tried) == 6
    assert all(each.weights != other_name or each.kv != tried[0].kv for each in tried)


def test_whole_numbers_of_8_bits_are_not_fp8() -> None:
    tried = {each.weights for each in precisions(_demand(quantization="int8"))}
    assert {"int8", "fp8"} <= tried


@pytest.mark.parametrize(
    ("architecture", "tried", "refused"),
    [
        ("deepseek-v3", {"fp8-block", "awq"}, ["fp8 weights"]),
        ("gpt-oss-20b", {"mxfp4"}, ["fp8 weights", "awq weights"]),
    ],
)
def test_weights_that_are_published_in_few_bits_are_not_quantized_to_as_many(
    architecture: str, tried: set[str], refused: list[str]
) -> None:
    demand = _demand(architecture, max_model_len=4096)
    found = _swept(demand)
    assert {each.weights for each in precisions(demand)} == tried
    reasons = {each.pool: each.reasons for each in found.refused if each.pool.endswith("weights")}
    assert list(reasons) == refused
    assert all("gains nothing" in "".join(each) for each in reasons.values())


def test_every_priced_instance_is_tried() -> None:
    found = _swept(_demand())
    tried = {point.instance for point in found.points}
    tried |= {refusal.pool.split()[0] for refusal in found.refused}
    assert tried == {supply.instance for supply in priced_supplies(CATALOG)}
    assert any(point.pareto for point in found.points)
    assert any(point.layout.pipeline > 1 for point in found.points)


def test_an_instance_offers_a_sweep_what_it_offers_a_pool() -> None:
    """Its fabric decides what a pipeline across nodes costs."""
    swept = {supply.instance: supply for supply in priced_supplies(CATALOG)}
    for pool in (H100, L4):
        (planned,) = plan_hosts(fleet(pools={"here": pool})).supplies.values()
        ours = swept[planned.instance]
        held = {"nodes_min": 1, "nodes_max": planned.nodes_max, "holds_gateway": True}
        assert replace(ours, pool="here", **held) == planned
    assert {supply.fabric.kind for supply in swept.values()} == {"efa", "tcp"}


def test_what_cannot_hold_the_model_is_refused_with_its_reason() -> None:
    found = _swept(_demand("llama-3.1-70b"))
    refused = {refusal.pool: refusal.reasons for refusal in found.refused}
    assert "exceed the" in refused["g6.xlarge TP1"][0]
    declared = [point for point in found.points if point.as_declared]
    assert not any(point.accelerator == "L4" and point.layout.devices < 8 for point in declared)
    assert "exceed the" in refused["g6.xlarge TP1, awq weights, bf16 KV"][0]


def test_two_hundred_configurations_and_more_are_compared_in_six_precisions() -> None:
    found = _swept(_demand())
    assert len(found.points) + len(found.refused) >= 200
    assert len({point.precision for point in found.points}) == 6
    assert {point.precision for point in found.points if point.as_declared} == {found.declared}


def test_what_is_declared_does_not_change_what_is_compared() -> None:
    one, other = (_swept(_demand(quantization=each)) for each in (None, "awq"))
    assert one.declared != other.declared
    assert [replace(point, as_declared=True) for point in one.points] == [
        replace(point, as_declared=True) for point in other.points
    ]


def test_a_goal_that_no_number_of_replicas_keeps_is_missed_at_the_cost_of_the_load() -> None:
    goal = LatencyGoal(ttft_p95_ms=1000, tpot_p95_ms=1)
    found = _swept(replace(_demand(), goal=goal))
    free = _swept(replace(_demand(), goal=NO_GOAL))
    assert {point.meets_goal for point in found.points} == {False}
    costs = [[point.usd_per_hour.value for point in each.points] for each in (found, free)]
    assert costs[0] == costs[1]
    assert found.goal_answer_s == pytest.approx(1 + 199 * 0.001)
    assert free.goal_answer_s is None


def test_accelerators_that_the_engine_does_not_know_are_refused() -> None:
    found = _swept(_demand())
    assert {point.accelerator for point in found.points}.isdisjoint({"trn1", "inf2"})
    neuron = [refusal for refusal in found.refused if refusal.pool.startswith(("trn1", "inf2"))]
    assert neuron
    assert all("Neuron" in "".join(refusal.reasons) for refusal in neuron)


def test_a_sweep_without_a_load_has_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="no load"):
        sweep(replace(_demand(), load=None), CATALOG)
