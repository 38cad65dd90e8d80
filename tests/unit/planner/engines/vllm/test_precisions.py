from __future__ import annotations

import pytest

from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.precisions import precision_problems
from slipway.planner.quantization import describe_precision
from tests.unit.planner.architectures import ACCELERATORS, MODELS, made_up


def _problems(
    model: str, accelerator: str = "H100-80", *, tensor: int = 1, weights: str, kv: str = "bf16"
) -> tuple[str, ...]:
    precision = Precision(weights=weights, kv=kv)
    return precision_problems(
        MODELS[model], ACCELERATORS[accelerator], Layout(tensor=tensor), precision
    )


@pytest.mark.parametrize("accelerator", ["A10G", "A100-80", "L4", "H100-80", "B200", "MI300X"])
@pytest.mark.parametrize("weights", ["bf16", "fp8", "awq", "gptq"])
@pytest.mark.parametrize("kv", ["bf16", "fp8"])
def test_a_usual_model_runs_in_every_precision_everywhere(
    accelerator: str, weights: str, kv: str
) -> None:
    assert _problems("llama-3.1-8b", accelerator, weights=weights, kv=kv) == ()


@pytest.mark.parametrize(
    ("model", "tensor", "sizes"),
    [
        ("smollm2-135m", 1, ["hidden size of 576", "attention of 576 over 1 device is 576"]),
        ("qwen2.5-0.5b", 2, ["attention of 896 over 2 devices is 448"]),
        ("gpt-oss-20b", 1, ["hidden size of 2880"]),
    ],
)
def test_groups_of_four_bits_need_sides_that_they_divide(
    model: str, tensor: int, sizes: list[str]
) -> None:
    found = _problems(model, tensor=tensor, weights="awq")
    assert len(found) == len(sizes)
    for size, problem in zip(sizes, found, strict=True):
        assert size in problem
        assert "group of 128" in problem
    assert _problems(model, tensor=tensor, weights="fp8") == ()


def test_heads_that_cannot_be_divided_are_the_layouts_problem() -> None:
    assert _problems("qwen2.5-0.5b", tensor=3, weights="awq") == ()


@pytest.mark.parametrize(
    ("model", "reason"),
    [("deepseek-v3", "of latent attention"), ("gpt-oss-20b", "with attention sinks")],
)
def test_without_fp8_arithmetic_some_models_have_no_fp8_cache(model: str, reason: str) -> None:
    published = MODELS[model].published_weights
    (problem,) = _problems(model, "A100-80", weights=published, kv="fp8")
    assert reason in problem
    assert _problems(model, "A100-80", weights=published) == ()
    assert _problems(model, "H100-80", weights=published, kv="fp8") == ()


def test_without_fp8_arithmetic_heads_of_odd_sizes_have_no_fp8_cache() -> None:
    precision = Precision(kv="fp8")
    (problem,) = precision_problems(made_up(head_dim=96), ACCELERATORS["A10G"], Layout(), precision)
    assert "heads of 96" in problem


def test_a_precision_in_words() -> None:
    assert describe_precision(Precision(weights="fp8", kv="bf16")) == "fp8 weights, bf16 KV"
