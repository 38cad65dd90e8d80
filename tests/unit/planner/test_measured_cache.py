"""KV caches that engines reported, in later plans."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.calibration import CacheSettings, CalibrationSettings
from slipway.inputs import PlanInputs
from slipway.plan.document import plan_to_json
from slipway.plan.fabric import FabricSpec
from slipway.plan.figures import Layout, Precision
from slipway.plan.platform import ModelPlan
from slipway.planner.calibration import MeasuredCache, Subject, with_measured_cache
from slipway.planner.engines.vllm.memory import device_memory
from slipway.planner.reports.explain import explain
from stacks.planning import make_plan
from tests.unit.plan.samples import dev_inputs
from tests.unit.planner.fleets import CATALOG, engine, fleet, model_file

SETTINGS = {"max_model_len": 8192, "max_num_seqs": 64, "gpu_memory_utilization": 0.9}
DEV = {  # models/smollm2.yaml
    "max_model_len": 2048,
    "max_num_seqs": 8,
    "kv_cache_bytes": 2**30,
    "engine_args": {"override_generation_config": {"temperature": 0}},
}
TOKENS = 300_000


def measured(inputs: PlanInputs, **changes: Any) -> PlanInputs:
    """With a row of the model of `fleet`, in which a replica has TOKENS."""
    row = {
        "model": "llama-3.1-8b",
        "accelerator": "H100-80",
        "machine": "p5.48xlarge",
        "date": "2026-11-21",
        "versions": {"vllm": "0.32.0", "driver": "580.95.05"},
        "memory": {"kv_tokens": TOKENS, "settings": SETTINGS},
    } | changes
    rows = {"schema_version": 1, "rows": [row]}
    return replace(inputs, calibration=CalibrationSettings.model_validate(rows, strict=False))


def with_settings(inputs: PlanInputs, **changes: Any) -> PlanInputs:
    return measured(inputs, memory={"kv_tokens": TOKENS, "settings": SETTINGS | changes})


def only_model(inputs: PlanInputs) -> ModelPlan:
    (model,) = make_plan(inputs).models
    return model


def one_device(**changes: Any) -> PlanInputs:
    return fleet(model_file(engine=engine(**changes), parallel={"tensor": 1}))


def test_measured_tokens_replace_the_estimate_and_the_plan_says_where_they_are_from() -> None:
    estimated, counted = only_model(one_device()), only_model(measured(one_device()))
    assert (estimated.memory.kv_source, estimated.memory.error_bytes > 0) == ("", True)
    assert counted.memory.kv_tokens == TOKENS != estimated.memory.kv_tokens
    assert counted.memory.kv_cache_bytes == TOKENS * counted.memory.kv_bytes_per_token
    assert counted.memory.error_bytes == 0
    assert counted.memory.kv_source == (
        "measured 2026-11-21 on p5.48xlarge: llama-3.1-8b on H100-80"
        " (driver 580.95.05, vllm 0.32.0)"
    )
    document = json.loads(plan_to_json(make_plan(measured(one_device()))))
    assert document["models"][0]["memory"]["kv_source"] == counted.memory.kv_source


def test_a_smaller_measured_cache_holds_fewer_requests() -> None:
    row = {"kv_tokens": 20_000, "settings": SETTINGS}
    few = only_model(measured(one_device(), memory=row))
    assert few.sequences_at_mean_length == 20_000 // 1008  # 1,000 tokens in blocks of 16
    assert few.memory.max_sequences_at_full_length == 2
    estimated = only_model(one_device())
    assert few.sequences_at_mean_length < estimated.sequences_at_mean_length
    assert few.serving is not None
    assert estimated.serving is not None
    assert few.serving.requests_per_s.value < estimated.serving.requests_per_s.value


@pytest.mark.parametrize(
    "changes",
    [
        {"max_model_len": 4096},
        {"max_num_seqs": 32},
        {"gpu_memory_utilization": 0.8},
        {"engine_args": {"max_num_batched_tokens": 2048}},
        {"engine_args": {"enforce_eager": True}},
        {"kv_cache_dtype": "fp8"},
    ],
    ids=str,
)
def test_a_cache_that_was_measured_with_other_settings_says_nothing(
    changes: dict[str, Any],
) -> None:
    other = only_model(measured(one_device(**changes)))
    assert other.memory.kv_source == ""
    assert other.memory == only_model(one_device(**changes)).memory


def test_settings_that_are_spelt_out_are_those_of_the_model_file() -> None:
    arguments = {"max_num_batched_tokens": 4096}
    model = only_model(with_settings(one_device(engine_args=arguments), engine_args=arguments))
    assert model.memory.kv_tokens == TOKENS


@pytest.mark.parametrize("changes", [{"layout": {"tensor": 2}}, {"accelerator": "H200"}], ids=str)
def test_a_cache_of_another_layout_or_accelerator_says_nothing(changes: dict[str, Any]) -> None:
    assert only_model(measured(one_device(), **changes)).memory.kv_source == ""


def test_on_processors_a_row_with_the_stated_size_counts() -> None:
    row = {
        "model": "smollm2-135m",
        "accelerator": None,
        "precision": {"weights": "fp32", "kv": "fp32"},
        "memory": {"kv_tokens": 23_296, "settings": DEV},
    }
    computed = only_model(dev_inputs())
    model = only_model(measured(dev_inputs(), **row))
    assert (computed.memory.kv_tokens, model.memory.kv_tokens) == (23_301, 23_296)
    assert "smollm2-135m on processors" in model.memory.kv_source
    assert model.stable == computed.stable  # the job does not change
    other = {"memory": {"kv_tokens": 1, "settings": DEV | {"kv_cache_bytes": 2**29}}}
    assert only_model(measured(dev_inputs(), **row | other)).memory == computed.memory


def test_the_explanation_names_the_row_and_what_was_computed() -> None:
    model = only_model(measured(one_device()))
    lines = {
        line.quantity: line
        for line in explain(
            model,
            CATALOG.models["llama-3.1-8b"],
            CATALOG.accelerators["H100-80"],
            FabricSpec(),
        )
    }
    for quantity in ("  = KV cache", "KV tokens of a replica"):
        assert lines[quantity].basis == "measured"
        assert lines[quantity].source == model.memory.kv_source
    estimated = only_model(one_device()).memory.kv_cache_bytes
    assert f"computed, {estimated / 2**30:.2f} GiB" in lines["  = KV cache"].arithmetic
    assert lines["KV tokens of a replica"].result == "300,000"


@given(
    architecture=st.sampled_from(["llama-3.1-8b", "gemma-3-27b", "gpt-oss-20b", "qwen3-8b"]),
    layout=st.builds(Layout, tensor=st.sampled_from([1, 2]), data=st.sampled_from([1, 2, 4])),
    length=st.integers(1, 131_072),
    sequences=st.floats(1, 500),
)
def test_a_reported_cache_holds_as_many_sequences_of_full_length_as_its_engine_said(
    architecture: str, layout: Layout, length: int, sequences: float
) -> None:
    """vLLM reports how many sequences of full length fit, times their length, for each group."""
    model, device = CATALOG.models[architecture], CATALOG.accelerators["H100-80"]
    memory = device_memory(
        model, device, layout=layout, precision=Precision(), max_len=length, max_num_seqs=64
    )
    cache = MeasuredCache(
        of=Subject(architecture=model, accelerator=device, layout=layout, precision=Precision()),
        settings=CacheSettings(max_model_len=length, max_num_seqs=64),
        kv_tokens=layout.data * int(sequences * length),
        source="a row",
    )
    made = with_measured_cache(memory, cache)
    assert made.kv_tokens == cache.kv_tokens
    assert made.longest_sequence_bytes <= made.kv_cache_bytes
    assert made.max_sequences_at_full_length >= layout.data
    held = made.sequence.held_bytes(length)
    if made.kv_cache_bytes > made.longest_sequence_bytes:
        assert made.kv_cache_bytes / held == pytest.approx(sequences, abs=1.01 / length)
    parts = ("weights_bytes", "activations_bytes", "usable_bytes", "device_bytes", "sequence")
    assert all(getattr(made, part) == getattr(memory, part) for part in parts)
