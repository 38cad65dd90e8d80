from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slipway.config.errors import ConfigError
from slipway.config.files import load_environment
from slipway.config.fleet import FleetSettings
from slipway.config.what_if import Change, changed, parse_change
from slipway.inputs import PlanInputs, load_inputs
from stacks.planning import make_plan
from tests.unit.config.checkout import ROOT, Checkout


def _inputs(*texts: str) -> PlanInputs:
    return load_inputs(ROOT, "aws", changes=[parse_change(text) for text in texts])


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("pools.h100.nodes.max=4", Change(key=("pools", "h100", "nodes", "max"), value=4)),
        ("slipway:servers=3", Change(key=("servers",), value=3)),
        (
            "models.chat.replicas={min: 1, max: 2}",
            Change(key=("models", "chat", "replicas"), value={"min": 1, "max": 2}),
        ),
        ("models.chat.pools=[a, b]", Change(key=("models", "chat", "pools"), value=["a", "b"])),
        (
            "models.chat.engine.quantization=fp8",
            Change(key=("engine", "quantization"), value="fp8", model="chat"),
        ),
        ("models.chat.slo=", Change(key=("slo",), value=None, model="chat")),
        ("servers=2026-13-45", Change(key=("servers",), value="2026-13-45")),
    ],
)
def test_a_change_is_of_the_environment_or_of_a_models_file(text: str, change: Change) -> None:
    assert parse_change(text) == change


@pytest.mark.parametrize("text", ["pools.h100", "=4", "pools..nodes=4", "servers={"])
def test_an_option_that_is_not_a_change_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_change(text)
    (problem,) = caught.value.problems
    assert (problem.source, problem.value) == ("--what-if", text)


def test_changes_replace_what_they_name_and_nothing_else() -> None:
    values: dict[str, Any] = {"a": {"b": 1, "c": 2}, "d": 3}
    changes = [Change(key=("a", "b"), value=9), Change(key=("e", "f"), value=4)]
    assert changed(values, changes) == {"a": {"b": 9, "c": 2}, "d": 3, "e": {"f": 4}}
    assert values == {"a": {"b": 1, "c": 2}, "d": 3}


def test_a_change_without_a_value_removes_the_key() -> None:
    assert changed({"a": {"b": 1, "c": 2}}, [parse_change("a.b=")]) == {"a": {"c": 2}}
    assert changed({"a": 1}, [parse_change("b=")]) == {"a": 1}
    inputs = _inputs("models.phi-4=", "models.gemma-2-9b.slo=")
    assert "phi-4" not in inputs.models
    assert inputs.models["gemma-2-9b"].settings.slo.ttft_p95_ms is None


def test_a_pool_replaces_the_pools_to_choose_from_and_the_other_way_round() -> None:
    values = {"models": {"a": {"pools": ["l4", "l40s"], "replicas": 1}, "b": {"pool": "l4"}}}
    changes = [parse_change("models.a.pool=h100"), parse_change("models.b.pools=[h100]")]
    assert changed(values, changes) == {
        "models": {"a": {"replicas": 1, "pool": "h100"}, "b": {"pools": ["h100"]}}
    }


@pytest.mark.parametrize("name", ["bf16", "bfloat16"])
def test_the_quantization_may_be_none(name: str) -> None:
    inputs = _inputs(f"models.phi-4.engine.quantization={name}")
    (phi,) = [model for model in make_plan(inputs).models if model.name == "phi-4"]
    assert (phi.precision.weights, phi.precision.kv) == ("bf16", "bf16")
    engine = phi.replica.document["engine"]
    assert engine["dtype"] == "auto", "vLLM chooses the dtype of the published weights"
    assert "quantization" not in engine, "vLLM has no name for none"


def test_changes_reach_the_environment_and_the_models() -> None:
    inputs = _inputs("pools.h100.nodes.max=7", "models.phi-4.engine.max_num_seqs=5")
    settings = inputs.environment.settings
    assert isinstance(settings, FleetSettings)
    assert settings.pools["h100"].model_dump()["nodes"]["max"] == 7
    assert inputs.models["phi-4"].settings.engine.max_num_seqs == 5
    assert load_inputs(ROOT, "aws").models["phi-4"].settings.engine.max_num_seqs == 48


def test_a_load_may_be_replaced_by_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "day.jsonl"
    line = '{{"timestamp": {}, "input_length": 100, "output_length": 10}}\n'
    trace.write_text("".join(line.format(1000 * k) for k in range(11)))
    inputs = _inputs(f"models.phi-4.load={{trace: {trace}}}")
    assert list(inputs.traces) == ["phi-4"]
    assert inputs.traces["phi-4"].requests_per_s == pytest.approx(1.1)
    (phi,) = [model for model in make_plan(inputs).models if model.name == "phi-4"]
    assert "1.1 requests/s" in phi.replicas_needed.source


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        ("models.ph-4.engine.kind=vllm", "models.ph-4", 'did you mean "phi-4"?'),
        ("pools.h100.nods=1", "slipway:pools.h100.nods", 'did you mean "nodes"?'),
        ("models.phi-4.engine.dtype=fp7", "models.phi-4.engine.dtype", "bfloat16"),
        ("target=aws2", "slipway:target", 'did you mean "aws"?'),
        ("pools.l40.nodes.max=4", "pools.l40", 'did you mean "l40s" or "l4"?'),
        ("pools.l5.nodes.max=4", "pools.l5", "use one of: edge, h100, l4, l40s"),
        ("models.phi-5.replicas.max=4", "models.phi-5", 'did you mean "phi-4"?'),
        ("models.smollm2.slo.ttft_p95_ms=9", "models.smollm2", "use one of 12, such as gemma"),
        ("models.phi-4.replicas.max=1", "slipway:models.phi-4.replicas", "raise max to 3"),
        ("models.phi-4.load.trace=none.jsonl", "models.phi-4.load", "keep `trace`"),
        ("models.phi-4.load={trace: none.jsonl}", "models.phi-4.load.trace", "check the path"),
        ("gateway.pool=l5", "slipway:gateway.pool", "use one of: edge, h100, l4, l40s"),
    ],
)
def test_a_change_is_checked_like_the_files_and_its_problems_are_reported_for_the_option(
    text: str, key: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _inputs(text)
    (problem,) = caught.value.problems
    assert (problem.source, problem.line, problem.key) == ("--what-if", None, key)
    assert fix in problem.fix


def test_a_pool_and_a_model_may_be_added_whole_and_then_changed() -> None:
    inputs = _inputs(
        "pools.l5.nodes.max=6",
        "pools.l5={kind: aws, instance: g6.xlarge, nodes: {max: 4}}",
        "models.smollm2.slo.ttft_p95_ms=9000",
        "models.smollm2={pool: l4, replicas: {min: 1, max: 1}}",
    )
    assert inputs.environment.settings.pools["l5"].kind == "aws"
    assert inputs.models["smollm2"].settings.slo.ttft_p95_ms == 9000


def test_a_problem_in_a_file_is_not_reported_for_the_option(checkout: Checkout) -> None:
    checkout.edit("Pulumi.dev.yaml", "nodes: 2", "nodes: 0")
    with pytest.raises(ConfigError) as caught:
        load_environment(checkout.root, "dev", [parse_change("pools.cpu.nodes=3")])
    (problem,) = caught.value.problems
    assert (problem.source, problem.line) == ("Pulumi.dev.yaml", 5)


def test_a_key_that_neither_a_deployment_nor_a_model_has_gets_the_nearest_of_both() -> None:
    with pytest.raises(ConfigError, match=r"models\.phi-4\.replica: unknown key") as caught:
        parse_change("models.phi-4.replica.max=4")
    assert caught.value.problems[0].fix == 'did you mean "replicas"?'


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("quantization", "engine.quantization"),
        ("profile", "engine.profile"),
        ("tensor", "parallel.tensor"),
        ("tpot_p95_ms", "slo.tpot_p95_ms"),
        ("drain_s", "timeouts.drain_s"),
    ],
)
def test_a_key_without_its_section_gets_the_key_with_it(key: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_change(f"models.phi-4.{key}=1")
    assert caught.value.problems[0].fix == f'did you mean "{meant}"?'
