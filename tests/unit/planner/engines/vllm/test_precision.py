"""The plan, `fit` and a sweep accept the precisions that vLLM runs, and no others."""

from __future__ import annotations

import pytest

from slipway.config.document import Origin
from slipway.config.errors import ConfigError
from slipway.config.model import VllmEngine, parse_model
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.adapter import precision_of
from slipway.planner.fit import Deployment, fit
from stacks.planning import make_plan
from tests.unit.planner.architectures import ACCELERATORS, MODELS
from tests.unit.planner.fleets import engine, fleet, model_file

BIG = {"parallel": {"tensor": 8, "pipeline": 2}}


def precision(architecture: str, **changes: str) -> tuple[str, str]:
    model = parse_model(
        model_file(engine=engine(architecture, **changes)), origin=Origin(source="models/chat.yaml")
    )
    assert isinstance(model.settings.engine, VllmEngine)
    found = precision_of(model.settings.engine, MODELS[architecture])
    return found.weights, found.kv


@pytest.mark.parametrize(
    ("architecture", "changes", "expected"),
    [
        ("llama-3.1-8b", {}, ("bf16", "bf16")),
        ("llama-3.1-8b", {"dtype": "float32"}, ("fp32", "fp32")),
        ("llama-3.1-8b", {"dtype": "float16", "quantization": "fp8"}, ("fp8", "fp16")),
        ("gpt-oss-20b", {"dtype": "bfloat16"}, ("mxfp4", "bf16")),
        ("deepseek-v3", {"dtype": "bfloat16"}, ("fp8-block", "bf16")),
        ("deepseek-v3", {"dtype": "float16", "kv_cache_dtype": "fp8"}, ("fp8-block", "fp8")),
        ("deepseek-v3", {"quantization": "awq"}, ("awq", "bf16")),
    ],
)
def test_a_dtype_does_not_replace_weights_that_are_published_quantized(
    architecture: str, changes: dict[str, str], expected: tuple[str, str]
) -> None:
    assert precision(architecture, **changes) == expected


@pytest.mark.parametrize(
    ("architecture", "changes", "key", "message", "fix"),
    [
        ("gpt-oss-20b", {"quantization": "fp8"}, "quantization", "published in mxfp4", "use mxfp4"),
        ("gpt-oss-20b", {"quantization": "awq"}, "quantization", "published in mxfp4", "use mxfp4"),
        (
            "deepseek-v3",
            {"quantization": "fp8"},
            "quantization",
            "published in fp8-block",
            "use fp8-block",
        ),
        ("gpt-oss-20b", {"dtype": "float16"}, "dtype", "in bfloat16 only", "use bfloat16"),
        ("gpt-oss-20b", {"dtype": "float32"}, "dtype", "in bfloat16 only", "use bfloat16"),
        ("deepseek-v3", {"dtype": "float32"}, "dtype", "in 16 bits only", "use bfloat16"),
        (
            "llama-3.1-8b",
            {"quantization": "fp8", "dtype": "float32"},
            "dtype",
            "fp8 weights in 16 bits only",
            "use bfloat16",
        ),
        (
            "llama-3.1-8b",
            {"quantization": "nvfp4", "dtype": "float32"},
            "dtype",
            "nvfp4 weights in 16 bits only",
            "use bfloat16",
        ),
        ("gemma-2-9b", {"dtype": "float16"}, "dtype", "numerically unstable", "use bfloat16"),
        (
            "gemma-3-27b",
            {"quantization": "fp8", "dtype": "float16"},
            "dtype",
            "numerically unstable",
            "use bfloat16",
        ),
    ],
)
def test_a_precision_that_vllm_does_not_run_is_refused_with_its_key(
    architecture: str, changes: dict[str, str], key: str, message: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_plan(fleet(model_file(engine=engine(architecture, **changes), **BIG)))
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("models/chat.yaml", f"engine.{key}")
    assert problem.value == changes[key]
    assert message in problem.message
    assert problem.fix.startswith(fix)


@pytest.mark.parametrize(
    ("architecture", "weights", "kv", "reason"),
    [
        ("gpt-oss-20b", "fp8", "bf16", "published in mxfp4"),
        ("gpt-oss-20b", "bf16", "bf16", "published in mxfp4"),
        ("deepseek-v3", "fp8", "bf16", "published in fp8-block"),
        ("llama-3.1-8b", "fp8", "fp32", "in 16 bits only"),
        ("gemma-2-9b", "fp16", "fp16", "numerically unstable"),
    ],
)
def test_fit_refuses_what_the_plan_refuses(
    architecture: str, weights: str, kv: str, reason: str
) -> None:
    deployment = Deployment(
        accelerator="B200",
        layout=Layout(tensor=8),
        precision=Precision(weights=weights, kv=kv),
        max_len=4096,
    )
    answer = fit(MODELS[architecture], deployment, ACCELERATORS)
    assert any(reason in each for each in answer.reasons)


def test_fit_suggests_the_published_weights_instead_of_others_with_as_many_bits() -> None:
    deployment = Deployment(accelerator="H100-80", precision=Precision(weights="fp8"))
    (suggestion,) = fit(MODELS["gpt-oss-20b"], deployment, ACCELERATORS).suggestions
    assert suggestion.startswith("--quant mxfp4: ")


@pytest.mark.parametrize(("weights", "kv"), [("fp32", "fp32"), ("fp16", "fp16"), ("awq", "fp8")])
def test_fit_accepts_another_dtype_and_fewer_bits(weights: str, kv: str) -> None:
    deployment = Deployment(
        accelerator="H100-80", precision=Precision(weights=weights, kv=kv), max_len=4096
    )
    assert fit(MODELS["llama-3.1-8b"], deployment, ACCELERATORS).feasible


def test_the_models_that_are_unstable_in_float16_are_gemma_2_and_3() -> None:
    """vLLM lists them by model type; the catalog tells them by the norms that they have."""
    found = {name for name, each in MODELS.items() if "post_norms" in each.parts}
    assert found == {name for name in MODELS if name.startswith(("gemma-2-", "gemma-3-"))}
