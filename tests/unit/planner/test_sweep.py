from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.environment import FleetSettings
from slipway.plan.capacity import Figure, Layout
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.sweep import Point, priced_supplies, sweep, with_pareto
from tests.unit.planner.fleets import CATALOG, engine, fleet, model_file


def _demand(architecture: str = "llama-3.1-8b") -> Demand:
    inputs = fleet(model_file(architecture, engine=engine(architecture)))
    settings = inputs.environment.settings
    assert isinstance(settings, FleetSettings)
    made = plan_demand(
        inputs.models["chat"], settings.models["chat"], CATALOG.models, inputs.traces
    )
    assert isinstance(made, Demand)
    return made


def _point(cost: float, answer_s: float) -> Point:
    figure = Figure(value=cost, unit="USD/h", basis="declared", source="a test")
    return Point(
        instance="a",
        accelerator="H100-80",
        layout=Layout(),
        replicas=1,
        usd_per_hour=figure,
        usd_per_million_output_tokens=figure,
        ttft_ms=figure,
        tpot_ms=figure,
        answer_s=answer_s,
        meets_goal=None,
        pareto=False,
    )


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


def test_every_priced_instance_is_tried() -> None:
    found = sweep(_demand(), CATALOG)
    tried = {point.instance for point in found.points}
    tried |= {refusal.pool.split()[0] for refusal in found.refused}
    assert tried == {supply.instance for supply in priced_supplies(CATALOG)}
    assert any(point.pareto for point in found.points)
    assert any(point.layout.pipeline > 1 for point in found.points)


def test_what_cannot_hold_the_model_is_refused_with_its_reason() -> None:
    found = sweep(_demand("llama-3.1-70b"), CATALOG)
    refused = {refusal.pool: refusal.reasons for refusal in found.refused}
    assert "exceed the" in refused["g6.xlarge TP1"][0]
    assert not any(point.accelerator == "L4" and point.layout.devices < 8 for point in found.points)


def test_accelerators_that_the_engine_does_not_know_are_refused() -> None:
    found = sweep(_demand(), CATALOG)
    assert {point.accelerator for point in found.points}.isdisjoint({"trn1", "inf2"})
    neuron = [refusal for refusal in found.refused if refusal.pool.startswith(("trn1", "inf2"))]
    assert neuron
    assert all("Neuron" in "".join(refusal.reasons) for refusal in neuron)


def test_a_sweep_without_a_load_has_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="no load"):
        sweep(replace(_demand(), load=None), CATALOG)
