"""Replicas over several hosts: which layouts are refused and by what key, and what members get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.errors import ConfigError, Problem
from slipway.plan.fabric import FabricSpec
from slipway.plan.figures import Layout
from slipway.planner.engines.vllm.latency.longest_step import FullStep, on_processors_s
from slipway.planner.groups import pool_problems
from slipway.planner.hardware import replica_network
from slipway.planner.supply.supplies import plan_hosts
from slipway.planner.supply.supply import Supply
from stacks.planning import make_plan
from tests.unit.planner.fleets import CATALOG, H100, engine, fleet, model_file
from tests.unit.planner.group_layouts import (
    EDGE,
    FOUR_EACH,
    ON_TCP,
    ONE_EACH,
    OWNED,
    PLAIN_AWS,
    POSSIBLE,
    PROCESSORS,
    SIM,
    SMALL,
    Planned,
    on_processors,
    planned_on,
)

Refused = tuple[str, Mapping[str, Any], Mapping[str, int], str, str]
IMPOSSIBLE: Mapping[str, Refused] = {
    # architecture, pool, parallel, the key, what the fix says
    "tensor over hosts of 8": ("llama-3.1-405b", OWNED, {"tensor": 16}, "tensor", "8"),
    "tensor over hosts of 4": ("llama-3.1-70b", FOUR_EACH, {"tensor": 8}, "tensor", "4"),
    "tensor over hosts of 1": ("llama-3.1-8b", ONE_EACH, {"tensor": 2}, "tensor", "1"),
    "tensor over hosts with EFA": ("llama-3.1-405b", H100, {"tensor": 32}, "tensor", "8"),
    "data over two hosts": ("llama-3.1-70b", OWNED, {"tensor": 8, "data": 2}, "data", "replicas"),
    "data over four hosts": ("llama-3.1-8b", FOUR_EACH, {"data": 16}, "data", "replicas"),
    "data of pipelines": (
        "llama-3.1-70b",
        OWNED,
        {"tensor": 4, "pipeline": 2, "data": 2},
        "data",
        "replicas",
    ),
    "experts over two hosts": (
        "qwen3-30b-a3b",
        OWNED,
        {"tensor": 4, "data": 4, "expert": 16},
        "expert",
        "pipeline",
    ),
    "experts over hosts with EFA": (
        "deepseek-v3",
        H100,
        {"tensor": 8, "data": 4, "expert": 32},
        "expert",
        "pipeline",
    ),
    "experts of a pipeline over hosts": (
        "mixtral-8x7b",
        OWNED,
        {"tensor": 8, "pipeline": 2, "expert": 8},
        "expert",
        "pipeline",
    ),
    "12 of 16 devices": (
        "llama-3.1-70b",
        OWNED,
        {"tensor": 4, "pipeline": 3},
        "pipeline",
        "`pipeline: 4`",
    ),
    "9 of 16 devices": ("llama-3.1-8b", OWNED, {"pipeline": 9}, "pipeline", "`pipeline: 16`"),
    "10 of 12 devices": (
        "llama-3.1-8b",
        FOUR_EACH,
        {"tensor": 2, "pipeline": 5},
        "pipeline",
        "`pipeline: 6`",
    ),
    "groups that no host divides into": (
        "llama-3.1-8b",
        OWNED | {"accelerators_per_node": 6},
        {"tensor": 4, "pipeline": 3},
        "pipeline",
        "a `tensor` that divides 6",
    ),
    "two hosts on TCP": (
        "llama-3.1-70b",
        ON_TCP,
        {"tensor": 8, "pipeline": 2},
        "pipeline",
        "allow_tcp: true",
    ),
    "two small hosts of a cloud": (
        "llama-3.1-8b",
        PLAIN_AWS,
        {"pipeline": 2},
        "pipeline",
        "infiniband, roce or efa",
    ),
    "more hosts than the pool has": (
        "llama-3.1-405b",
        OWNED,
        {"tensor": 8, "pipeline": 5},
        "pipeline",
        "use at most 4",
    ),
    "more hosts than a cloud's pool may have": (
        "llama-3.1-405b",
        H100 | {"nodes": {"min": 0, "max": 2}},
        {"tensor": 4, "pipeline": 6},
        "pipeline",
        "use at most 4",
    ),
    "more stages than layers": (
        "llama-3.1-8b",
        ONE_EACH,
        {"pipeline": 33},
        "pipeline",
        "use at most 32",
    ),
    "more stages than layers, on a host": (
        "smollm2-135m",
        OWNED | {"nodes": 8},
        {"pipeline": 32},
        "pipeline",
        "use at most 30",
    ),
}
# By the pool, the engine and `parallel`: the key and what the fix says.
ON_PROCESSORS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, int], str, str]] = {
    "tensor": (PROCESSORS, {"tensor": 2}, "tensor", "leave `tensor` out"),
    "data": (PROCESSORS, {"data": 2}, "data", "leave `data` out"),
    "expert": (PROCESSORS, {"expert": 2}, "expert", "leave `expert` out"),
    "plain TCP": (PROCESSORS | {"fabric": "tcp"}, {"pipeline": 2}, "pipeline", "allow_tcp: true"),
    "too few hosts": (PROCESSORS, {"pipeline": 7}, "pipeline", "use at most 6"),
    "too few layers": (PROCESSORS | {"nodes": 40}, {"pipeline": 33}, "pipeline", "use at most 3"),
}


def _problem(file: dict[str, Any], pool: Mapping[str, Any]) -> Problem:
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(file, pools={"hosts": dict(pool)}, replicas={"min": 1, "max": 1}))
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("case", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_a_layout_that_no_pool_can_have_is_refused_with_key_value_and_fix(case: Refused) -> None:
    architecture, pool, parallel, key, fix = case
    problem = _problem(model_file(engine=engine(architecture), parallel=dict(parallel)), pool)
    assert (problem.source, problem.key) == ("models/chat.yaml", f"parallel.{key}")
    assert problem.value == parallel[key]
    assert fix in problem.fix


@pytest.mark.parametrize("kind", [SMALL, SIM], ids=["vllm", "sim"])
@pytest.mark.parametrize("case", ON_PROCESSORS.values(), ids=ON_PROCESSORS.keys())
def test_processors_refuse_what_they_cannot_split_with_key_value_and_fix(
    case: tuple[Mapping[str, Any], Mapping[str, int], str, str], kind: dict[str, Any]
) -> None:
    pool, parallel, key, fix = case
    problem = _problem(on_processors(kind, parallel), pool)
    assert (problem.source, problem.key) == ("models/chat.yaml", f"parallel.{key}")
    assert problem.value == parallel[key]
    assert fix in problem.fix


def test_a_pool_that_cannot_have_the_layout_is_passed_over_for_one_that_can() -> None:
    file = model_file(engine=engine("llama-3.1-70b"), parallel={"tensor": 8, "pipeline": 2})
    (model,) = make_plan(fleet(file, pools={"slow": ON_TCP, "fast": OWNED})).models
    assert model.pool == "fast"
    (refused,) = model.refused
    assert refused.pool == "slow"
    assert 'the fabric of pool "slow" is tcp' in refused.reasons[0]


@given(hosts=st.integers(2, 6), nodes=st.integers(1, 8), allow_tcp=st.booleans())
def test_a_pool_on_tcp_has_pipelines_over_hosts_where_it_allows_them(
    hosts: int, nodes: int, allow_tcp: bool
) -> None:
    fabric = FabricSpec(kind="tcp", allow_tcp=allow_tcp)
    supply = replace(_supply(PROCESSORS), fabric=fabric, nodes_max=nodes)
    found = list(pool_problems(Layout(pipeline=hosts), supply))
    assert len(found) == (hosts > nodes) + (not allow_tcp)
    assert not list(pool_problems(Layout(), supply))


@pytest.mark.parametrize("pool", [PROCESSORS, OWNED], ids=["processors", "accelerators"])
def test_the_word_that_a_fix_gives_lets_a_pipeline_cross_hosts_over_tcp(
    pool: dict[str, Any],
) -> None:
    allowed = pool | {"fabric": {"kind": "tcp", "allow_tcp": True}}
    stages = 2 * pool.get("accelerators_per_node", 1)
    file = model_file(engine=SMALL, parallel={"pipeline": stages}, load=None, slo={})
    assert "`fabric: {kind: tcp, allow_tcp: true}`" in _problem(file, pool | {"fabric": "tcp"}).fix
    assert planned_on(file, allowed).replica.nodes == 2


def test_a_pipeline_crosses_the_hosts_of_this_machine_where_their_pool_allows_tcp() -> None:
    tcp = FabricSpec(kind="tcp", allow_tcp=True)
    here = replace(
        _supply(PROCESSORS), fabric=tcp, network_gbps=0.0, link_latency_us=0.0, on_loopback=True
    )
    layout = Layout(pipeline=2)
    assert not list(pool_problems(layout, here))
    network = replica_network(here, layout)
    assert network is not None
    step = FullStep(batched_tokens=2048, max_model_len=2048, max_num_seqs=8, kv_tokens=20_000)
    model = CATALOG.models["smollm2-135m"]
    over = on_processors_s(model, step, threads=2, stages=2, network=network)
    assert over == on_processors_s(model, step, threads=2)


@pytest.mark.parametrize("case", POSSIBLE, ids=lambda case: f"{case[0]} {dict(case[2])}")
def test_the_members_of_a_replica_have_all_of_its_devices_between_them(case: Planned) -> None:
    architecture, pool, parallel, hosts, devices = case
    settings = engine(architecture, max_model_len=2048, max_num_seqs=8)
    model = planned_on(model_file(engine=settings, parallel=dict(parallel)), pool)
    replica, document = model.replica, model.replica.document["engine"]
    assert (replica.nodes, replica.devices) == (hosts, devices)
    sizes = [document[f"{kind}_parallel_size"] for kind in ("tensor", "pipeline", "data")]
    assert sizes == [parallel.get(kind, 1) for kind in ("tensor", "pipeline", "data")]
    world = sizes[0] * sizes[1] * sizes[2]
    assert world == model.layout.devices == replica.nodes * replica.devices
    assert replica.document["devices"]["count"] == devices, "of each member"
    assert devices % sizes[0] == 0, "a tensor-parallel group has one host"
    assert document["expert_parallel"] is ("expert" in parallel)
    if hosts > 1:
        assert devices == pool.get("accelerators_per_node", 8), "whole hosts"


@pytest.mark.parametrize("kind", [SMALL, SIM], ids=["vllm", "sim"])
@pytest.mark.parametrize("hosts", [1, 2, 3, 6])
def test_a_pipeline_on_processors_has_a_member_on_each_of_so_many_hosts(
    kind: dict[str, Any], hosts: int
) -> None:
    model = planned_on(on_processors(kind, {"pipeline": hosts}), PROCESSORS)
    assert (model.replica.nodes, model.replica.devices) == (hosts, 0)
    assert model.replica.document["engine"].get("pipeline_parallel_size", 1) == hosts
    assert model.layout == Layout(pipeline=hosts)
    if hosts > 1:
        assert model.replica.cpu_mhz == 8 * 1000, "nothing is placed beside a member"
    else:
        assert model.replica.cpu_mhz < 8 * 1000


def test_a_simulated_replica_of_one_host_has_the_document_that_it_always_had() -> None:
    alone, stated = (
        planned_on(file, PROCESSORS).replica.document
        for file in ({"name": "chat", "engine": SIM}, on_processors(SIM, {"pipeline": 1}))
    )
    assert alone == stated
    assert "pipeline_parallel_size" not in alone["engine"]


@pytest.mark.parametrize("kv_cache", ["128MiB", "1GiB", "2GiB"])
def test_a_member_has_the_memory_that_the_largest_was_measured_with(kv_cache: str) -> None:
    """SmolLM2 over two hosts took 3.5 GB at rank 0 and 2.8 GB at rank 1 (2026-11-26)."""
    small = SMALL | {"kv_cache": kv_cache, "max_model_len": 1024}
    alone, member = (
        planned_on(on_processors(small, {"pipeline": stages}), PROCESSORS).replica.memory_bytes
        for stages in (1, 2)
    )
    assert 3.5e9 <= member < alone


def test_the_hosts_of_a_group_are_its_own() -> None:
    """Six hosts hold two groups of two beside two models of one, and no third group."""
    group = on_processors(SMALL, {"pipeline": 2})
    beside = {"name": "beside", "engine": SIM}
    pools = {"edge": dict(EDGE), "hosts": dict(PROCESSORS)}

    def planned(groups: int) -> Any:
        deployments = {
            "chat": {"pools": ["hosts"], "replicas": {"min": 1, "max": groups}},
            "beside": {"pools": ["hosts"], "replicas": {"min": 2, "max": 2}},
        }
        return make_plan(fleet(group, beside, pools=pools, deployments=deployments))

    plan = planned(2)
    chat = next(model for model in plan.models if model.name == "chat")
    assert (chat.scaling.max_replicas, chat.replica.nodes) == (2, 2)
    assert chat.surge_replicas == 0, "one host is free, and a group takes two"
    with pytest.raises(ConfigError) as caught:
        planned(3)
    (problem,) = caught.value.problems
    assert problem.key == "slipway:models.beside.replicas.max"


@pytest.mark.parametrize(("groups", "room"), [(1, 1), (2, 1), (3, 0)])
def test_room_for_a_changed_group_is_counted_in_groups(groups: int, room: int) -> None:
    """Of six hosts; never more than the model has groups."""
    model = planned_on(on_processors(SMALL, {"pipeline": 2}), PROCESSORS, groups=groups)
    assert model.surge_replicas == room


def test_more_groups_than_the_hosts_hold_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        planned_on(on_processors(SMALL, {"pipeline": 2}), PROCESSORS, groups=4)
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == ("slipway:models.chat.replicas.max", 4)
    assert "1 of 4 replicas do not fit" in problem.message
    assert "on each of 2 hosts" in problem.message
    assert "lower max to 3" in problem.fix


@pytest.mark.parametrize("groups", [1, 2])
def test_groups_cost_all_of_their_hosts(groups: int) -> None:
    pool = H100 | {"nodes": {"min": 0, "max": 4}}
    file = model_file(
        engine=engine("llama-3.1-405b", max_model_len=2048),
        parallel={"tensor": 8, "pipeline": 2},
        load=None,
        slo={},
    )
    plan = make_plan(fleet(file, pools={"h100": pool}, replicas={"min": groups, "max": groups}))
    assert plan.pools[0].usd_per_hour.value == pytest.approx(groups * 2 * 55.04)
    assert plan.models[0].cost.usd_per_hour.value == pytest.approx(groups * 2 * 55.04)
    assert plan.pools[0].accelerators_used == groups * 16


def _supply(pool: Mapping[str, Any]) -> Supply:
    return plan_hosts(fleet(pools={"hosts": dict(pool)})).supplies["hosts"]
