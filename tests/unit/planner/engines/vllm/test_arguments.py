"""`engine_args` of vLLM: counted where they cost memory, refused where they contradict the plan."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.errors import ConfigError, Problem
from slipway.inputs import PlanInputs
from slipway.plan.figures import DeviceMemory
from stacks.planning import make_plan
from tests.unit.planner.engines.test_settings_reach_engines import (
    PACKAGE,
    VLLM,
    on_processors,
)
from tests.unit.planner.fleets import engine, fleet, model_file


def on_accelerators(**arguments: Any) -> PlanInputs:
    return fleet(model_file(engine=engine(engine_args=arguments)))


def on_a_cpu_pool(**arguments: Any) -> PlanInputs:
    return on_processors({"source": PACKAGE, "engine": VLLM | {"engine_args": arguments}})


def memory(inputs: PlanInputs) -> DeviceMemory:
    (model,) = make_plan(inputs).models
    return model.memory


def problem(inputs: PlanInputs) -> Problem:
    with pytest.raises(ConfigError) as caught:
        make_plan(inputs)
    (found,) = caught.value.problems
    return found


@pytest.mark.parametrize("name", ["max_num_batched_tokens", "--max-num-batched-tokens"])
def test_the_tokens_of_a_step_take_memory_from_the_cache(name: str) -> None:
    by_default, more = memory(on_accelerators()), memory(on_accelerators(**{name: 65_536}))
    assert more.activations_bytes == 8 * by_default.activations_bytes
    taken = more.activations_bytes - by_default.activations_bytes
    assert more.kv_cache_bytes == by_default.kv_cache_bytes - taken


def test_adapters_take_memory_from_the_cache() -> None:
    none = memory(on_accelerators(max_loras=4))
    one = memory(on_accelerators(enable_lora=True))
    many = memory(on_accelerators(enable_lora=True, max_loras=4, **{"max-lora-rank": 64}))
    assert none.adapters_bytes == 0
    assert 0 < one.adapters_bytes < many.adapters_bytes == 16 * one.adapters_bytes
    assert many.kv_cache_bytes == none.kv_cache_bytes - many.adapters_bytes


def test_adapters_take_host_memory_on_a_pool_of_processors() -> None:
    none, some = memory(on_a_cpu_pool()), memory(on_a_cpu_pool(enable_lora=True, max_loras=2))
    assert some.adapters_bytes > 0
    assert some.usable_bytes == none.usable_bytes + some.adapters_bytes
    assert some.kv_cache_bytes == none.kv_cache_bytes


@pytest.mark.parametrize("pool", [on_accelerators, on_a_cpu_pool])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_lora", "yes"),
        ("max_loras", 0),
        ("max_loras", "4"),
        ("max_loras", True),
        ("max_lora_rank", 24),
        ("max-lora-rank", "16"),
    ],
)
def test_adapters_that_cannot_be_counted_are_refused(pool: Any, name: str, value: object) -> None:
    found = problem(pool(**{"enable_lora": True, name: value}))
    assert (found.key, found.value) == (f"engine.engine_args.{name}", value)


@pytest.mark.parametrize("pool", [on_accelerators, on_a_cpu_pool])
@pytest.mark.parametrize(
    "name",
    [
        "prefill_context_parallel_size",
        "--decode-context-parallel-size",
        "nnodes",
        "node-rank",
        "device_ids",
        "data_parallel_size_local",
        "no-data-parallel-hybrid-lb",
        "headless",
        "config",
    ],
)
def test_what_divides_a_model_beside_the_plan_is_refused(pool: Any, name: str) -> None:
    found = problem(pool(**{name: 2}))
    assert found.key == f"engine.engine_args.{name}"
    assert found.fix == "remove it"


@pytest.mark.parametrize(
    ("name", "meant", "fix"),
    [
        ("tensor_parallel", "tensor_parallel_size", "set `parallel.tensor` instead"),
        ("--kv-cache-memory", "kv_cache_memory_bytes", "remove it"),
        ("gpu-memory", "gpu_memory_utilization", "set `engine.gpu_memory_utilization` instead"),
        ("device_memory", "device_memory_utilization", "set `engine.gpu_memory_utilization`"),
        ("no-enable-expert", "enable_expert_parallel", "set `parallel.expert` instead"),
        ("served_model", "served_model_name", "remove it"),
        ("nnode", "nnodes", "remove it"),
        ("max_num_batched", "max_num_batched_tokens", "write max_num_batched_tokens"),
    ],
)
def test_an_abbreviation_is_refused_like_the_argument_that_vllm_takes_it_for(
    name: str, meant: str, fix: str
) -> None:
    found = problem(on_accelerators(**{name: 2}))
    assert found.key == f"engine.engine_args.{name}"
    assert found.message == f"is read by vLLM as an abbreviation of {meant}"
    assert found.fix.startswith(fix)


def test_an_argument_that_only_begins_like_a_planned_one_is_not_an_abbreviation() -> None:
    plan = make_plan(on_accelerators(kv_cache_dtype_skip_layers=["0"], max_num_queued_reqs=9))
    assert "max_num_queued_reqs" in plan.models[0].replica.document["engine"]["engine_args"]


@pytest.mark.parametrize(
    ("pool", "name"),
    [
        (on_a_cpu_pool, "gpu_memory_utilization"),
        (on_a_cpu_pool, "tensor-parallel-size"),
        (on_accelerators, "kv-cache-memory-bytes"),
    ],
)
def test_no_refusal_sends_the_reader_to_a_key_that_the_pool_refuses(pool: Any, name: str) -> None:
    found = problem(pool(**{name: 2}))
    assert found.message == "does not apply to this kind of pool"
    assert found.fix == "remove it"


@pytest.mark.parametrize("name", ["max_loras", "enable_lora", "max_num_batched_tokens"])
def test_a_counted_argument_still_reaches_vllm(name: str) -> None:
    value = True if name == "enable_lora" else 128
    (model,) = make_plan(on_accelerators(**{name: value})).models
    assert model.replica.document["engine"]["engine_args"] == {name: value}
