from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.config.errors import ConfigError
from slipway.plan.platform import NodeRange, PlatformPlan
from stacks.planning import make_plan
from tests.unit.planner.fleets import H100, L4, fleet, model_file

ON_H100: Any = {"deployments": {"chat": {"pools": ["h100"]}}}
FEW = {"requests_per_s": 0.1, "input_tokens": 100, "output_tokens": 20}


def _plan(*layouts: tuple[int, int, int], nodes: int = 100) -> PlatformPlan:
    """Models of (tensor, pipeline, replicas) on nodes of 8 devices."""
    models = [
        model_file(name=f"model-{k}", load=FEW, parallel={"tensor": tensor, "pipeline": pipeline})
        for k, (tensor, pipeline, _) in enumerate(layouts)
    ]
    deployments = {
        f"model-{k}": {"replicas": {"min": replicas, "max": replicas}}
        for k, (_, _, replicas) in enumerate(layouts)
    }
    pools = {"h100": H100 | {"nodes": {"max": nodes}}}
    return make_plan(fleet(*models, pools=pools, deployments=deployments))


def _nodes(plan: PlatformPlan) -> float:
    return plan.pools[0].usd_per_hour.value / 55.04


@pytest.mark.parametrize(
    ("layouts", "nodes"),
    [
        ([(1, 1, 1)], 1),
        ([(4, 1, 2)], 1),
        ([(4, 1, 2), (1, 1, 1)], 2),
        ([(2, 1, 3), (1, 1, 2)], 1),
        ([(8, 2, 1)], 2),  # a replica over two nodes
        ([(4, 1, 1), (8, 2, 1), (4, 1, 1)], 3),
        ([(2, 8, 2)], 4),  # two hosts each, and all of their devices
        ([(2, 8, 1), (2, 1, 4)], 3),
    ],
)
def test_nodes_by_hand(layouts: list[tuple[int, int, int]], nodes: int) -> None:
    assert _nodes(_plan(*layouts)) == pytest.approx(nodes)


def test_replicas_over_several_nodes_need_the_nodes_that_their_jobs_ask_for() -> None:
    plan = _plan((2, 8, 2))
    replica = plan.models[0].replica
    assert (replica.nodes, replica.devices) == (2, 8)
    assert plan.pools[0].accelerators_used == 2 * replica.nodes * replica.devices
    with pytest.raises(
        ConfigError, match="2 replicas of 2 hosts would take 4, but the pool has at most 3"
    ):
        _plan((2, 8, 2), nodes=3)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8]), st.just(1), st.integers(1, 5)),
        min_size=1,
        max_size=5,
    )
)
def test_powers_of_two_leave_no_gap(layouts: list[tuple[int, int, int]]) -> None:
    """Largest first they pack perfectly: as many nodes as the devices need."""
    devices = sum(tensor * replicas for tensor, _, replicas in layouts)
    plan = _plan(*layouts)
    assert _nodes(plan) == pytest.approx(math.ceil(devices / 8))
    assert plan.pools[0].accelerators_used == devices


def test_what_a_pool_keeps_at_least_is_paid() -> None:
    pools = {"h100": H100 | {"nodes": {"min": 3, "max": 4}}}
    assert _nodes(make_plan(fleet(pools=pools))) == pytest.approx(3)


def test_the_gateways_pool_keeps_a_node_for_it_even_if_no_model_runs_there() -> None:
    pools = {"h100": H100, "l4": L4}
    plan = make_plan(fleet(pools=pools, gateway={"pool": "l4"}, **ON_H100))
    l4 = plan.pool("l4")
    assert l4.range == NodeRange(min=1, max=8)
    assert l4.usd_per_hour.source.startswith("1 node for the declared load")
    without = make_plan(fleet(pools=pools, gateway={"pool": "h100"}, **ON_H100))
    assert plan.usd_per_hour_at_most == pytest.approx(
        without.usd_per_hour_at_most + l4.usd_per_hour.value
    )


def test_an_unused_pool_without_a_minimum_costs_nothing() -> None:
    pools = {"h100": H100, "spare": H100}
    plan = make_plan(fleet(pools=pools, deployments={"chat": {"pools": ["h100"]}}))
    assert [pool.usd_per_hour.value > 0 for pool in plan.pools] == [True, False]
