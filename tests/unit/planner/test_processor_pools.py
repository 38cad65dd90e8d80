"""Pools without accelerators are planned by one rule, on this machine and elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.errors import ConfigError
from slipway.plan.platform import NodeRange
from stacks.planning import make_plan
from tests.unit.planner.fleets import H100, engine, fleet, model_file

CPU = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": {"min": 1, "max": 4}}
OWN_CPU = {"kind": "metal", "nodes": 2, "memory": "64GiB", "cpu": 32}
SIM = {"kind": "sim", "architecture": "llama-3.1-8b", "profile": "h100-fp8-llama-3.1-8b"}
SMALL = model_file(engine=engine("smollm2-135m", max_model_len=2048, max_num_seqs=8))
SIMULATED = {"name": "chat", "engine": SIM}


@pytest.mark.parametrize("pool", [CPU, OWN_CPU])
@pytest.mark.parametrize("file", [SMALL, SIMULATED])
def test_a_model_runs_on_processors_of_every_target(
    file: dict[str, Any], pool: dict[str, Any]
) -> None:
    plan = make_plan(fleet(file, pools={"cpu": pool}, replicas={"min": 2, "max": 3}))
    (model,) = plan.models
    assert (model.pool, model.accelerator, model.replica.devices) == ("cpu", "", 0)
    assert model.replica.memory_bytes
    assert model.serving is None, "nothing was measured"
    assert plan.pool("cpu").hosts == ()


def test_processors_that_are_bought_cost_the_nodes_that_replicas_fill() -> None:
    plan = make_plan(fleet(SMALL, pools={"cpu": CPU}, replicas={"min": 3, "max": 5}))
    (model,), pool = plan.models, plan.pool("cpu")
    # 4 of 8 cores a replica: one beside the platform's own jobs on the first node, two on others.
    assert pool.usd_per_hour.value == pytest.approx(2 * 0.4032)
    assert plan.usd_per_hour_at_most == pytest.approx(3 * 0.4032)
    assert pool.range == NodeRange(min=1, max=4)
    assert model.cost.usd_per_hour.value == pytest.approx(3 / 2 * 0.4032)


def test_a_model_that_names_both_kinds_of_pools_takes_the_cheaper_one_that_serves_it() -> None:
    pools = {"cpu": CPU, "h100": H100}
    no_goal = SMALL | {"slo": {}}
    plan = make_plan(fleet(no_goal, pools=pools, replicas={"min": 1, "max": 2}))
    assert plan.models[0].pool == "cpu"
    # A setting that only accelerators have leaves only them.
    file = no_goal | {"engine": engine("smollm2-135m", kv_cache_dtype="fp8", max_model_len=2048)}
    (model,) = make_plan(fleet(file, pools=pools)).models
    assert model.pool == "h100"
    (refused,) = model.refused
    assert refused.pool == "cpu"
    assert "engine.kv_cache_dtype applies to accelerators only" in refused.reasons[0]


def test_a_pool_that_promises_nothing_comes_after_one_that_meets_the_goal() -> None:
    plan = make_plan(fleet(SMALL, pools={"cpu": CPU, "h100": H100}, replicas={"min": 1, "max": 2}))
    (model,) = plan.models
    assert (model.pool, model.meets_goal) == ("h100", True)
    assert model.refused[0].reasons == ("promises nothing: its times were not measured",)


def test_a_model_goes_on_to_accelerators_when_the_processors_are_full() -> None:
    pools = {"cpu": CPU | {"nodes": {"min": 1, "max": 1}}, "h100": H100}
    plan = make_plan(fleet(SMALL | {"slo": {}}, pools=pools, replicas={"min": 1, "max": 8}))
    (model,) = plan.models
    assert model.pool == "h100"
    assert "no room for 7 replicas" in model.refused[0].reasons[0]


def test_the_gateways_pool_keeps_a_node_for_it() -> None:
    pools = {"cpu": CPU | {"nodes": {"min": 0, "max": 4}}, "h100": H100}
    plan = make_plan(fleet(SMALL, pools=pools, deployments={"chat": {"pools": ["h100"]}}))
    assert plan.pool("cpu").usd_per_hour.value == pytest.approx(0.4032)
    assert plan.pool("cpu").range == NodeRange(min=1, max=4)


def test_the_gateways_node_counts_even_where_no_replica_fits_beside_it() -> None:
    whole_node = SMALL | {"engine": engine("smollm2-135m", max_model_len=2048, threads=8)}
    plan = make_plan(fleet(whole_node, pools={"cpu": CPU}, replicas={"min": 1, "max": 2}))
    assert plan.pool("cpu").usd_per_hour.value == pytest.approx(2 * 0.4032)


def test_replicas_that_do_not_fit_on_processors_are_refused_with_what_they_need() -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(SMALL, pools={"cpu": CPU}, replicas={"min": 1, "max": 60}))
    (problem,) = caught.value.problems
    assert problem.key == "slipway:models.chat.replicas.max"
    assert "the pool has 4 x 31544 MiB and 8000 MHz" in problem.message


def test_the_hosts_of_owned_machines_are_known_by_name_and_address() -> None:
    hosts = [{"name": f"rack{k}", "address": f"10.40.0.{k}"} for k in (11, 12)]
    pool = {"kind": "metal", "hosts": hosts, "memory": "64GiB", "cpu": 32}
    plan = make_plan(fleet(SIMULATED, pools={"cpu": pool}))
    planned = plan.pool("cpu")
    assert planned.range is None
    assert [(host.name, host.address) for host in planned.hosts] == [
        ("rack11", "10.40.0.11"),
        ("rack12", "10.40.0.12"),
    ]
    assert [envoy.node for envoy in plan.gateway.envoys] == ["rack11", "rack12"]


def test_where_owned_machines_are_listed_every_address_is_known() -> None:
    hosts = [{"name": f"rack{k}", "address": f"10.40.0.{k}"} for k in (11, 12)]
    servers = [{"name": f"rack{k}", "address": f"10.40.0.{k}"} for k in (1, 2, 3)]
    pool = {"kind": "metal", "hosts": hosts, "memory": "64GiB", "cpu": 32}
    plan = make_plan(fleet(SIMULATED, pools={"cpu": pool}, servers=3, server_hosts=servers))
    assert [(host.name, host.address) for host in plan.servers] == [
        ("rack1", "10.40.0.1"),
        ("rack2", "10.40.0.2"),
        ("rack3", "10.40.0.3"),
    ]
    assert (plan.consul.url, plan.nomad.url) == (
        "https://10.40.0.1:8501",
        "https://10.40.0.1:4646",
    )
    assert plan.gateway.clients.url == "http://10.40.0.11:8080"


def test_the_servers_of_owned_machines_may_be_counted_only() -> None:
    pool = {"kind": "metal", "nodes": 2, "memory": "64GiB", "cpu": 32}
    plan = make_plan(fleet(SIMULATED, pools={"cpu": pool}, servers=3))
    assert [(host.name, host.address) for host in plan.servers] == [
        ("server-0", ""),
        ("server-1", ""),
        ("server-2", ""),
    ]
