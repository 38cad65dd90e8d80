from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.views.fit_table import memory_parts
from slipway.plan.figures import Layout, Precision
from slipway.planner.fit import Deployment, Fit, fit, replica_layout
from tests.unit.planner.architectures import ACCELERATORS, MODELS

GIB = 2**30


def _fit(
    model: str,
    accelerator: str,
    *,
    tensor: int = 1,
    pipeline: int = 1,
    weights: str = "bf16",
    kv: str = "bf16",
    **options: Any,
) -> Fit:
    deployment = Deployment(
        accelerator=accelerator,
        layout=Layout(tensor=tensor, pipeline=pipeline),
        precision=Precision(weights=weights, kv=kv),
        **options,
    )
    return fit(MODELS[model], deployment, ACCELERATORS)


@pytest.mark.parametrize(
    ("model", "accelerator", "options", "tokens"),
    [
        ("qwen2.5-7b", "L4", {}, 82_000),
        ("llama-3.1-70b", "H100-80", {"tensor": 2, "weights": "fp8"}, 237_000),
        ("llama-3.1-70b", "L40S", {"tensor": 4}, 69_000),
    ],
)
def test_known_deployments_fit(
    model: str, accelerator: str, options: dict[str, Any], tokens: int
) -> None:
    answer = _fit(model, accelerator, **options)
    assert answer.feasible
    assert answer.reasons == answer.suggestions == ()
    assert answer.kv_tokens == pytest.approx(tokens, rel=0.03)
    assert answer.max_concurrent_requests >= 1


@pytest.mark.parametrize(
    ("model", "accelerator", "options", "reason"),
    [
        ("llama-3.1-70b", "H100-80", {}, "weights take 131.4 GiB"),
        ("phi-4", "H100-80", {"tensor": 4}, "10 KV heads"),
        ("qwen2.5-7b", "H100-80", {"tensor": 8}, "28 attention heads"),
        ("qwen2.5-72b", "H100-80", {"tensor": 8, "weights": "fp8-block"}, "group of 128"),
        ("qwen2.5-7b", "L4", {"max_len": 65_536}, "65,536 tokens are more than the 32,768"),
        ("llama-3.1-8b", "L4", {"max_len": 65_536}, "holds one sequence of 30,"),
    ],
)
def test_known_deployments_do_not_fit(
    model: str, accelerator: str, options: dict[str, Any], reason: str
) -> None:
    answer = _fit(model, accelerator, **options)
    assert not answer.feasible
    assert answer.max_concurrent_requests == 0
    assert reason in answer.reasons[0]


def test_a_layout_that_is_refused_has_no_tokens() -> None:
    answer = _fit("phi-4", "H100-80", tensor=4)
    assert answer.kv_tokens == 0
    assert answer.memory.kv_cache_bytes > 60 * GIB


@pytest.mark.parametrize(
    ("model", "accelerator", "options", "suggested"),
    [
        (
            "llama-3.1-70b",
            "H100-80",
            {},
            ["--count 2 --tp 2", "--quant awq", "B200"],
        ),
        ("phi-4", "H100-80", {"tensor": 4}, ["--count 2 --tp 2", "--count 4 --tp 2 --pp 2"]),
        ("qwen2.5-7b", "L4", {"tensor": 8}, ["--count 4 --tp 4", "--count 8 --tp 4 --pp 2"]),
        (
            "llama-3.1-70b",
            "L40S",
            {"tensor": 4, "max_len": 131_072},
            ["--count 8", "--quant fp8", "--quant awq", "--max-len 55", "--gpu A"],
        ),
        (
            "qwen2.5-72b",
            "A100-80",
            {"tensor": 8, "weights": "fp8-block"},
            ["--count 8 --tp 1 --pp 8", "--quant awq"],
        ),
    ],
)
def test_what_would_fit_is_said_nearest_change_first(
    model: str, accelerator: str, options: dict[str, Any], suggested: list[str]
) -> None:
    found = _fit(model, accelerator, **options).suggestions
    assert len(found) == len(suggested)
    for wanted, suggestion in zip(suggested, found, strict=True):
        assert wanted in suggestion


@pytest.mark.parametrize("model", ["llama-3.1-70b", "phi-4", "deepseek-v3", "gemma-3-27b"])
@pytest.mark.parametrize("accelerator", ["L4", "A100-80", "H200"])
def test_every_suggestion_fits_when_it_is_followed(model: str, accelerator: str) -> None:
    tensor = 4 if model == "phi-4" else 1
    answer = _fit(model, accelerator, tensor=tensor)
    for suggestion in answer.suggestions:
        followed = fit(MODELS[model], _followed(answer.deployment, suggestion), ACCELERATORS)
        assert followed.feasible, suggestion
        assert f": {followed.kv_tokens:,} tokens" in suggestion


def test_without_a_length_the_longest_counts() -> None:
    answer = _fit("llama-3.1-70b", "L40S", tensor=4)
    assert answer.max_len < MODELS["llama-3.1-70b"].context
    memory = answer.memory
    sure = (memory.kv_cache_bytes - memory.error_bytes) // memory.kv_bytes_per_token
    assert sure - 16 < answer.max_len <= sure
    assert _fit("qwen2.5-7b", "L4").max_len == 32_768


def test_a_model_may_fit_where_the_error_decides_about_room_for_an_answer() -> None:
    answer = _fit("qwen2.5-32b", "A100-80", utilization=0.788)
    assert 0 < answer.kv_tokens < 2048
    assert answer.verdict == "may_fit"
    assert not answer.feasible
    assert answer.max_concurrent_requests == 1
    (reason,) = answer.reasons
    assert reason.startswith("does not fit by the estimate, but may: ")
    assert "a sequence of 2,048 tokens takes 0.50 GiB" in reason
    assert "errors of the weights (± 1.25 GiB)" in reason


def test_a_cache_that_is_surely_too_small_does_not_fit() -> None:
    answer = _fit("llama-3.1-70b", "L40S", tensor=4, max_len=131_072)
    assert answer.verdict == "does_not_fit"
    assert "not of 131,072" in answer.reasons[0]


@given(
    model=st.sampled_from(sorted(MODELS)),
    accelerator=st.sampled_from(sorted(ACCELERATORS)),
    length=st.integers(1, 8192),
)
def test_a_longer_sequence_never_fits_better(model: str, accelerator: str, length: int) -> None:
    order = ["fits", "may_fit", "does_not_fit", "cannot_run"]
    shorter = _fit(model, accelerator, max_len=length).verdict
    longer = _fit(model, accelerator, max_len=2 * length).verdict
    assert order.index(shorter) <= order.index(longer)


def test_a_length_too_short_for_an_answer_is_no_suggestion() -> None:
    answer = _fit("qwen2.5-32b", "A100-80", utilization=0.788, max_len=4096)
    assert not answer.feasible
    assert not any("--max-len" in suggestion for suggestion in answer.suggestions)


def test_kv_bytes_per_token_are_those_of_the_whole_model() -> None:
    answer = _fit("llama-3.1-70b", "H100-80", tensor=4)
    assert answer.kv_bytes_per_token == 320 * 1024
    assert answer.memory.kv_bytes_per_token == 80 * 1024


def test_a_tensor_parallel_group_may_be_as_large_as_the_node() -> None:
    deployment = Deployment(
        accelerator="H100-80", layout=Layout(tensor=16), precision=Precision(weights="bf16")
    )
    assert not fit(MODELS["llama-3.1-70b"], deployment, ACCELERATORS).feasible
    assert fit(MODELS["llama-3.1-70b"], deployment, ACCELERATORS, devices_per_node=16).feasible


@pytest.mark.parametrize(
    ("said", "tensor", "pipeline"),
    [
        ((None, None, None), 1, 1),
        ((None, 4, None), 4, 1),
        ((None, 4, 2), 4, 2),
        ((4, None, None), 4, 1),
        ((16, None, None), 8, 2),
        ((12, None, None), 6, 2),
        ((4, 2, None), 2, 2),
        ((4, None, 2), 2, 2),
        ((8, 4, 2), 4, 2),
    ],
)
def test_what_is_not_said_of_a_layout_is_filled_in(
    said: tuple[int | None, ...], tensor: int, pipeline: int
) -> None:
    devices, wanted_tensor, wanted_pipeline = said
    layout = replica_layout(devices=devices, tensor=wanted_tensor, pipeline=wanted_pipeline)
    assert layout == Layout(tensor=tensor, pipeline=pipeline)


@pytest.mark.parametrize("said", [(3, 2, None), (4, 4, 4), (4, 8, None), (4, None, 8)])
def test_numbers_that_contradict_each_other_are_refused(said: tuple[int | None, ...]) -> None:
    devices, tensor, pipeline = said
    with pytest.raises(ValueError, match=f"{devices} devices are not"):
        replica_layout(devices=devices, tensor=tensor, pipeline=pipeline)


@given(
    model=st.sampled_from(sorted(MODELS)),
    accelerator=st.sampled_from(sorted(ACCELERATORS)),
    tensor=st.sampled_from([1, 2, 4, 8]),
    weights=st.sampled_from(["bf16", "fp8", "awq"]),
)
def test_an_answer_has_either_requests_or_reasons(
    model: str, accelerator: str, tensor: int, weights: str
) -> None:
    answer = _fit(model, accelerator, tensor=tensor, weights=weights)
    assert answer.feasible == (answer.reasons == ())
    runs = answer.verdict in {"fits", "may_fit"}
    assert runs == (answer.max_concurrent_requests > 0)
    assert not (answer.feasible and answer.suggestions)


@given(
    model=st.sampled_from(sorted(MODELS)),
    accelerator=st.sampled_from(sorted(ACCELERATORS)),
    sequences=st.sampled_from([1, 8, 256, 1024]),
    weights=st.sampled_from(["bf16", "fp8", "awq"]),
)
def test_no_more_requests_are_promised_than_run_together(
    model: str, accelerator: str, sequences: int, weights: str
) -> None:
    answer = _fit(model, accelerator, weights=weights, max_num_seqs=sequences)
    assert answer.max_concurrent_requests <= sequences


@given(
    model=st.sampled_from(sorted(MODELS)),
    accelerator=st.sampled_from(sorted(ACCELERATORS)),
    tensor=st.sampled_from([1, 2, 4, 8]),
    length=st.integers(1, 8192),
)
def test_the_lines_add_up_to_the_byte(
    model: str, accelerator: str, tensor: int, length: int
) -> None:
    memory = _fit(model, accelerator, tensor=tensor, max_len=length).memory
    size = {part.key: part.size_bytes for part in memory_parts(memory)}
    taken = sum(part.size_bytes for part in memory_parts(memory) if part.sign == "- ")
    assert size["usable"] - taken == size["kv_cache"]
    held = memory.sequence.held_bytes(length)
    most = memory.max_sequences_at_full_length
    assert most * held <= max(0, size["kv_cache"])
    assert memory.kv_tokens <= max(0, size["kv_cache"]) * max(1, length) // min(
        held, length * memory.kv_bytes_per_token
    )


def _followed(deployment: Deployment, suggestion: str) -> Deployment:
    """The deployment that the options of a suggestion describe."""
    options = dict(re.findall(r"--(\S+) ([^\s:]+)", suggestion))
    layout, precision = deployment.layout, deployment.precision
    if "count" in options:
        layout = Layout(tensor=int(options["tp"]), pipeline=int(options.get("pp", 1)))
    return Deployment(
        accelerator=options.get("gpu", deployment.accelerator),
        layout=layout,
        precision=Precision(
            weights=options.get("quant", precision.weights),
            kv=options.get("kv-dtype", precision.kv),
        ),
        max_len=int(options["max-len"]) if "max-len" in options else deployment.max_len,
    )
