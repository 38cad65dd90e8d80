from __future__ import annotations

import pytest

from slipway.architectures.parameters import count
from slipway.config.catalog import Architecture, MixtureOfExperts
from slipway.planner.quantization import KV_BYTES, SCHEMES, weight_bytes
from tests.unit.planner.architectures import MODELS, made_up

GIB = 2**30
LINEAR = 4 * (64 * 64 + 2 * 64 * 16 + 64 * 64 + 3 * 64 * 256)
KEPT = 2 * 1000 * 64 + 64 + 4 * 2 * 64  # token and logits table, norms


@pytest.mark.parametrize(
    ("scheme", "linear", "kept"),
    [
        ("fp32", 4, 4),
        ("bf16", 2, 2),
        ("fp16", 2, 2),
        ("fp8", 1, 2),
        ("int8", 1, 2),
        ("fp8-block", 1 + 4 / 128**2, 2),
        ("awq", 0.5 + 2.5 / 128, 2),
        ("gptq", 0.5 + 2.5 / 128, 2),
        ("w4a16", 0.5 + 2 / 128, 2),
        ("w4a16-asym", 0.5 + 2.5 / 128, 2),
        ("nvfp4", 0.5 + 1 / 16, 2),
        ("mxfp4", 2, 2),  # packs experts only, and here is none
    ],
)
def test_linear_layers_are_packed_and_the_rest_is_kept(
    scheme: str, linear: float, kept: int
) -> None:
    wanted = LINEAR * linear + KEPT * kept
    assert weight_bytes(made_up(), SCHEMES[scheme]) == pytest.approx(wanted, abs=1)


def test_every_scheme_is_tested_above() -> None:
    assert len(SCHEMES) == 12


def test_mxfp4_packs_experts() -> None:
    experts = MixtureOfExperts(count=8, per_token=2, intermediate=32)
    mixture = made_up(experts=experts)
    packed = 4 * 8 * 3 * 64 * 32
    saved = weight_bytes(mixture, SCHEMES["bf16"]) - weight_bytes(mixture, SCHEMES["mxfp4"])
    assert saved == packed * (2 - 0.53125)


@pytest.mark.parametrize(
    ("model", "bf16", "fp8", "four_bits"),
    [
        ("llama-3.1-8b", 15.0, 7.5, 4.2),
        ("llama-3.1-70b", 131.5, 65.8, 36.8),
        ("llama-3.1-405b", 756, 378, 212),
        ("qwen2.5-7b", 14.2, 7.1, 4.0),
        ("qwen2.5-32b", 61.1, 30.5, 17.1),
        ("qwen2.5-72b", 135.4, 67.7, 37.9),
        ("qwen3-8b", 15.3, 7.6, 4.3),
        ("qwen3-30b-a3b", 56.8, 28.4, 15.9),
        ("mixtral-8x7b", 87.0, 43.5, 24.4),
        ("phi-4", 27.4, 13.7, 7.7),
        ("gemma-2-27b", 50.7, 25.3, 14.2),
        ("gemma-3-27b", 51.0, 25.5, 14.3),
    ],
)
def test_weights_of_known_models(model: str, bf16: float, fp8: float, four_bits: float) -> None:
    """The rounded figures count every parameter at one width; kept tables come on top of them."""
    tables = _kept_gib(MODELS[model])
    assert _gib(model, "bf16") == pytest.approx(bf16, rel=0.005)
    assert _gib(model, "fp8") == pytest.approx(fp8 + tables / 2, rel=0.01)
    # 0.56 bytes a parameter: the figures' allowance for scales, where awq needs 0.52
    assert _gib(model, "awq") == pytest.approx(four_bits * 0.52 / 0.56 + 0.74 * tables, rel=0.02)


@pytest.mark.parametrize(
    ("model", "scheme", "published_gb"),
    [
        ("llama-3.1-8b", "awq", 5.74),  # hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4
        ("gpt-oss-120b", "mxfp4", 65.3),  # "60.8 GiB checkpoint", arXiv 2508.10925
        ("gpt-oss-20b", "mxfp4", 13.8),  # "12.8 GiB checkpoint", arXiv 2508.10925
    ],
)
def test_sizes_of_published_checkpoints(model: str, scheme: str, published_gb: float) -> None:
    assert _gib(model, scheme) * GIB / 1e9 == pytest.approx(published_gb, rel=0.01)


def test_widths_of_the_kv_cache() -> None:
    assert dict(KV_BYTES) == {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


def _gib(model: str, scheme: str) -> float:
    return weight_bytes(MODELS[model], SCHEMES[scheme]) / GIB


def _kept_gib(architecture: Architecture) -> float:
    """Token and logits table, and a vision tower, in 16 bits."""
    tables = count(architecture).embeddings + (architecture.vision_parameters or 0)
    return tables * 2 / GIB
