"""The formulas against models worked out by hand and against known sizes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.config.catalog import Architecture, LatentAttention, SlidingWindow, load_catalog
from slipway.planner.memory import (
    CPU_ENGINE_OVERHEAD_BYTES,
    SIM_REPLICA_BYTES,
    Sharding,
    cpu_replica,
    kv_budget_bytes,
    kv_bytes,
    kv_bytes_per_token,
    simulated_replica,
    tensor_parallel_problem,
    weights_bytes,
)
from tests.unit.plan.samples import ROOT

KIB, GIB = 2**10, 2**30
CATALOG = load_catalog(ROOT)
MODELS, ACCELERATORS = CATALOG.models, CATALOG.accelerators


def _architecture(**changes: Any) -> Architecture:
    values: dict[str, Any] = {
        "parameters": 1_000_000,
        "layers": 4,
        "hidden": 64,
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 8,
        "context": 4096,
        "source": "made up",
        "date": datetime.date(2026, 11, 21),
        "confidence": "unverified",
    }
    return Architecture.model_validate(values | changes)


@pytest.mark.parametrize(
    ("model", "kib"),
    [
        ("llama-3.1-8b", 128),
        ("llama-3.1-70b", 320),
        ("llama-3.1-405b", 504),
        ("qwen2.5-7b", 56),
        ("qwen2.5-72b", 320),
        ("qwen3-8b", 144),
        ("qwen3-30b-a3b", 96),
        ("mixtral-8x7b", 128),
        ("phi-4", 200),
        ("gemma-2-9b", 336),
        ("gemma-2-27b", 368),
        ("gemma-3-27b", 496),
    ],
)
def test_kv_per_token_of_known_models(model: str, kib: int) -> None:
    assert kv_bytes_per_token(MODELS[model], bytes_per_value=2) == kib * KIB


def test_latent_attention_keeps_one_vector_per_layer() -> None:
    deepseek = MODELS["deepseek-v3"]
    assert kv_bytes_per_token(deepseek, bytes_per_value=2) == 61 * 576 * 2


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_latent_attention_is_the_same_on_every_device(tensor: int) -> None:
    deepseek = MODELS["deepseek-v3"]
    sharded = kv_bytes_per_token(deepseek, bytes_per_value=2, sharding=Sharding(tensor=tensor))
    assert sharded == 61 * 576 * 2


@pytest.mark.parametrize(("tensor", "kib"), [(1, 56), (2, 28), (4, 14), (8, 14)], ids=str)
def test_kv_heads_are_divided_until_one_is_left(tensor: int, kib: int) -> None:
    sharding = Sharding(tensor=tensor)
    per_token = kv_bytes_per_token(MODELS["qwen2.5-7b"], bytes_per_value=2, sharding=sharding)
    assert per_token == kib * KIB


def test_pipeline_groups_hold_their_own_layers() -> None:
    llama = MODELS["llama-3.1-70b"]
    half = kv_bytes_per_token(llama, bytes_per_value=2, sharding=Sharding(pipeline=2))
    assert half * 2 == kv_bytes_per_token(llama, bytes_per_value=2)


@pytest.mark.parametrize(
    ("model", "bf16", "fp8"),
    [
        ("llama-3.1-8b", 15.0, 7.5),
        ("llama-3.1-70b", 131.5, 65.8),
        ("qwen2.5-7b", 14.2, 7.1),
        ("phi-4", 27.4, 13.7),
        ("mixtral-8x7b", 87.0, 43.5),
    ],
)
def test_weights_of_known_models(model: str, bf16: float, fp8: float) -> None:
    architecture = MODELS[model]
    assert weights_bytes(architecture, bytes_per_parameter=2) / GIB == pytest.approx(bf16, abs=0.06)
    assert weights_bytes(architecture, bytes_per_parameter=1) / GIB == pytest.approx(fp8, abs=0.06)


@pytest.mark.parametrize(
    ("model", "tensor"), [("phi-4", 4), ("phi-4", 8), ("qwen2.5-7b", 8), ("smollm2-135m", 2)]
)
def test_splits_that_vllm_refuses_are_refused(model: str, tensor: int) -> None:
    assert tensor_parallel_problem(MODELS[model], tensor) is not None


@pytest.mark.parametrize(
    ("model", "tensor"),
    [("phi-4", 2), ("qwen2.5-7b", 4), ("llama-3.1-8b", 8), ("qwen3-30b-a3b", 8)],
)
def test_splits_that_vllm_takes_are_taken(model: str, tensor: int) -> None:
    assert tensor_parallel_problem(MODELS[model], tensor) is None


def _tokens(model: str, accelerator: str, width: float, runtime_gib: float, tensor: int = 1) -> int:
    sharding = Sharding(tensor=tensor)
    budget = kv_budget_bytes(
        ACCELERATORS[accelerator],
        MODELS[model],
        bytes_per_parameter=width,
        sharding=sharding,
        runtime_bytes=round(runtime_gib * GIB),
    )
    return budget // kv_bytes_per_token(MODELS[model], bytes_per_value=2, sharding=sharding)


def test_a_7b_model_in_bfloat16_on_an_l4() -> None:
    assert _tokens("qwen2.5-7b", "L4", 2, 1.5) == pytest.approx(82_000, rel=0.03)


def test_a_70b_model_in_fp8_on_two_h100() -> None:
    assert _tokens("llama-3.1-70b", "H100-80", 1, 2.5, tensor=2) == pytest.approx(237_000, rel=0.03)


def test_a_70b_model_in_bfloat16_on_four_l40s() -> None:
    assert _tokens("llama-3.1-70b", "L40S", 2, 2, tensor=4) == pytest.approx(69_000, rel=0.03)


def test_a_70b_model_in_bfloat16_has_no_room_on_one_h100() -> None:
    assert _tokens("llama-3.1-70b", "H100-80", 2, 2) < 0


def test_window_layers_stop_growing_at_the_window() -> None:
    windowed = _architecture(sliding_window=SlidingWindow(layers=3, tokens=10))
    per_layer = 2 * 2 * 8 * 2
    assert kv_bytes(windowed, tokens=10, bytes_per_value=2) == 4 * 10 * per_layer
    assert kv_bytes(windowed, tokens=110, bytes_per_value=2) == (110 + 3 * 10) * per_layer


def test_gemma_3_keeps_about_a_sixth_of_a_long_context() -> None:
    gemma = MODELS["gemma-3-27b"]
    full = 131_072 * kv_bytes_per_token(gemma, bytes_per_value=2)
    assert kv_bytes(gemma, tokens=131_072, bytes_per_value=2) / full == pytest.approx(
        1 / 6, abs=0.01
    )


architectures = st.builds(
    _architecture,
    layers=st.integers(1, 100),
    kv_heads=st.sampled_from([1, 2, 4, 8, 16]),
    head_dim=st.sampled_from([32, 64, 128, 256]),
    parameters=st.integers(10**6, 10**12),
    sliding_window=st.none() | st.just(SlidingWindow(layers=1, tokens=512)),
    latent=st.none() | st.just(LatentAttention(kv_lora_rank=512, rope_dimensions=64)),
)
tokens = st.integers(0, 10**6)


@given(architecture=architectures, fewer=tokens, more=tokens)
def test_more_tokens_never_need_less_cache(
    architecture: Architecture, fewer: int, more: int
) -> None:
    fewer, more = sorted((fewer, more))
    assert kv_bytes(architecture, tokens=fewer, bytes_per_value=2) <= kv_bytes(
        architecture, tokens=more, bytes_per_value=2
    )


@given(architecture=architectures, count=tokens, width=st.sampled_from([1, 2, 4]))
def test_a_sequence_never_needs_more_than_its_tokens_times_the_rate(
    architecture: Architecture, count: int, width: int
) -> None:
    rate = kv_bytes_per_token(architecture, bytes_per_value=width)
    used = kv_bytes(architecture, tokens=count, bytes_per_value=width)
    assert used <= count * rate
    if architecture.sliding_window is None:
        assert used == count * rate


@given(architecture=architectures, tensor=st.sampled_from([1, 2, 4, 8]))
def test_splitting_never_needs_more_on_one_device(architecture: Architecture, tensor: int) -> None:
    whole = kv_bytes_per_token(architecture, bytes_per_value=2)
    part = kv_bytes_per_token(architecture, bytes_per_value=2, sharding=Sharding(tensor=tensor))
    assert whole / tensor <= part <= whole


def test_the_default_model_needs_what_was_measured() -> None:
    """4.7 GB of RSS summed over the processes of one replica (2026-11-21)."""
    estimate = cpu_replica(MODELS["smollm2-135m"], dtype="float32", kv_cache_bytes=GIB)
    assert estimate.weights_bytes == 134_515_008 * 4
    assert estimate.kv_bytes_per_token == 2 * 30 * 3 * 64 * 4
    assert estimate.kv_tokens == GIB // estimate.kv_bytes_per_token == 23_301
    assert estimate.total_bytes == estimate.weights_bytes + GIB + CPU_ENGINE_OVERHEAD_BYTES
    assert 4.7e9 <= estimate.total_bytes <= 5.0e9


def test_a_simulated_replica_holds_neither_weights_nor_cache() -> None:
    estimate = simulated_replica(
        MODELS["llama-3.1-70b"], kv_bytes_per_token=320 * KIB, kv_cache_bytes=40 * GIB
    )
    assert estimate.total_bytes == SIM_REPLICA_BYTES
    assert estimate.weights_bytes == 0
    assert estimate.kv_tokens == 40 * GIB // (320 * KIB)
