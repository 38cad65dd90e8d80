from __future__ import annotations

from dataclasses import replace

from slipway.config.fleet import FleetSettings
from slipway.plan.figures import DeviceMemory, Layout
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.feasibility import replica_memory
from slipway.planner.fleet.option import Option, make_option, missed_goals
from slipway.planner.fleet.sweep import priced_supplies
from tests.unit.planner.fleets import fleet


def option(*, sustained: float, replicas: int = 2) -> Option:
    """One that answers a request in 400 + 199 x 45 ms, and sustains so many requests/s."""
    inputs = fleet(replicas={"min": replicas, "max": replicas})
    settings = inputs.environment.settings
    assert isinstance(settings, FleetSettings)
    demand = plan_demand(inputs.models["chat"], settings.models["chat"], inputs.catalog.models, {})
    assert isinstance(demand, Demand)
    supply = next(
        each for each in priced_supplies(inputs.catalog) if each.instance == "p5.48xlarge"
    )
    memory = replica_memory(demand, supply, Layout())
    assert isinstance(memory, DeviceMemory)
    made = make_option(demand, supply, Layout(), memory, detection_s=0.0, calibration=None)
    assert made.serving is not None
    serving = replace(
        made.serving,
        ttft_ms=replace(made.serving.ttft_ms, value=400.0),
        tpot_ms=replace(made.serving.tpot_ms, value=45.0),
        requests_per_s=replace(made.serving.requests_per_s, value=sustained),
    )
    return replace(made, serving=serving, replicas=replicas)


def test_too_few_replicas_say_how_many_would_do() -> None:
    needed = (
        "needs 20 replicas to meet the goal, but replicas.max is 2"  # 4 requests/s are declared
    )
    assert list(missed_goals(option(sustained=0.2))) == [needed]


def test_a_goal_that_only_a_lone_request_meets_is_not_met_by_more_replicas() -> None:
    said = "a single request takes most of the goal: TPOT 45 of 50 ms"
    assert list(missed_goals(option(sustained=0.004))) == [said]


def test_a_goal_that_a_lone_request_misses_is_said_to_be_missed() -> None:
    (said,) = missed_goals(option(sustained=0.0))
    assert said.startswith("misses the goal even with a single request")


def test_enough_replicas_miss_nothing() -> None:
    assert list(missed_goals(option(sustained=2.0))) == []
