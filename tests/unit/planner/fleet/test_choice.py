from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.config.fleet import FleetSettings
from slipway.inputs import PlanInputs
from slipway.planner.fleet.choice import best_options, every_option, ranked
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.supply.supplies import plan_hosts
from tests.unit.planner.fleets import CATALOG, H100, L40S, OWNED, fleet, model_file


def _demand(inputs: PlanInputs) -> Demand:
    deployments = inputs.environment.settings
    assert isinstance(deployments, FleetSettings)
    made = plan_demand(inputs.models["chat"], deployments.models["chat"], CATALOG.models, {})
    assert isinstance(made, Demand)
    return made


@pytest.mark.parametrize("pool", [H100, L40S, OWNED])
@settings(max_examples=15)
@given(
    rate=st.floats(0.1, 60),
    tpot_ms=st.integers(5, 60),
    least=st.integers(1, 3),
    more=st.integers(0, 6),
)
def test_the_best_option_of_a_pool_is_the_first_of_all_its_layouts(
    pool: dict[str, object], rate: float, tpot_ms: int, least: int, more: int
) -> None:
    """Layouts that cannot be better are not estimated."""
    load = {"requests_per_s": rate, "input_tokens": 800, "output_tokens": 200}
    inputs = fleet(
        model_file(load=load, slo={"tpot_p95_ms": tpot_ms}),
        pools={"here": pool},
        replicas={"min": least, "max": least + more},
    )
    demand, supplies = _demand(inputs), list(plan_hosts(inputs).supplies.values())
    (best,), refused = best_options(demand, supplies, detection_s=0)
    every = ranked(every_option(demand, supplies, detection_s=0))
    assert not refused
    assert best == every[0]
    assert len(every) > 1
