"""`slipway fit` and a plan give the same verdict on the memory of the same replica."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.plan.figures import DeviceMemory, Layout
from slipway.planner.engines.vllm.precisions import ENGINE_VENDORS
from slipway.planner.fit import Deployment, Fit, fit
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.feasibility import replica_memory
from slipway.planner.fleet.layouts import tensor_layouts
from slipway.planner.fleet.sweep import priced_supplies
from slipway.planner.supply.supply import Supply
from tests.unit.planner.fleets import CATALOG, engine, fleet, model_file

LENGTH, SEQUENCES, SHARE = 8192, 64, 0.9
KV_FORMATS = ({}, {"kv_cache_dtype": "fp8"})
SUPPLIES = {
    supply.accelerator_name: supply
    for supply in sorted(priced_supplies(CATALOG), key=lambda each: each.accelerators_per_node)
    # The command tells of the others beside its answer, which is about memory alone.
    if supply.device.vendor in ENGINE_VENDORS
}


def _demand(architecture: str, **changes: Any) -> Demand:
    sizes = {
        "max_model_len": min(LENGTH, CATALOG.models[architecture].context),
        "max_num_seqs": SEQUENCES,
        "gpu_memory_utilization": SHARE,
    }
    inputs = fleet(model_file(architecture, engine=engine(architecture, **sizes | changes)))
    deployment = inputs.environment.settings.models["chat"]
    made = plan_demand(inputs.models["chat"], deployment, CATALOG.models, inputs.traces)
    assert isinstance(made, Demand), made
    return made


def _answer(demand: Demand, supply: Supply, layout: Layout) -> Fit:
    return fit(
        demand.architecture,
        Deployment(
            accelerator=supply.accelerator_name,
            layout=layout,
            precision=demand.precision,
            max_len=demand.max_model_len,
            max_num_seqs=demand.max_num_seqs,
            utilization=SHARE,
        ),
        # Without others to suggest.
        {supply.accelerator_name: CATALOG.accelerators[supply.accelerator_name]},
        devices_per_node=supply.accelerators_per_node,
    )


@pytest.mark.parametrize("changes", KV_FORMATS)
@pytest.mark.parametrize("architecture", sorted(CATALOG.models))
def test_a_replica_fits_where_a_plan_would_place_it_and_has_the_same_memory(
    architecture: str, changes: dict[str, str]
) -> None:
    demand = _demand(architecture, **changes)
    # The format of the cache means the same on every device.
    supplies = list(SUPPLIES.values())[:: 3 if changes else 1]
    for supply in supplies:
        layouts = (*tensor_layouts(supply.accelerators_per_node), Layout(pipeline=2))
        for layout in layouts:
            planned, answer = (
                replica_memory(demand, supply, layout),
                _answer(demand, supply, layout),
            )
            where = (supply.instance, layout)
            placed = answer.verdict in {"fits", "may_fit"}
            assert placed == isinstance(planned, DeviceMemory), (where, planned, answer)
            assert not placed or answer.memory == planned, where


def test_both_verdicts_occur() -> None:
    verdicts = {
        _answer(_demand(architecture), supply, Layout()).feasible
        for architecture in ("llama-3.1-8b", "llama-3.1-70b")
        for supply in SUPPLIES.values()
    }
    assert verdicts == {True, False}
