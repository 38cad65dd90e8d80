"""The longest step of a plan: no work that fits in a step takes longer by the same roofline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.latency.longest_step import (
    FullStep,
    on_devices_s,
    on_processors_s,
)
from slipway.planner.engines.vllm.latency.roofline import Pass, decode, machine, pass_ms
from slipway.planner.hardware import Hardware
from tests.unit.planner.architectures import ACCELERATORS, MODELS

LLAMA, SMALL = MODELS["llama-3.1-8b"], MODELS["smollm2-135m"]
HARDWARE = Hardware(accelerator_name="H100-80", accelerator=ACCELERATORS["H100-80"])
STEP = FullStep(batched_tokens=8192, max_model_len=16_384, max_num_seqs=128, kv_tokens=400_000)


def on_an_h100(step: FullStep) -> float:
    return on_devices_s(LLAMA, HARDWARE, step, layout=Layout(), precision=Precision())


@given(
    prompt=st.integers(1, STEP.max_model_len),
    cached=st.integers(0, STEP.max_model_len),
    sequences=st.integers(1, STEP.max_num_seqs),
    context=st.integers(1, STEP.max_model_len),
)
def test_it_bounds_the_roofline_of_what_fits_in_a_step(
    prompt: int, cached: int, sequences: int, context: int
) -> None:
    served = machine(LLAMA, HARDWARE, layout=Layout(), precision=Precision())
    tokens = min(prompt, STEP.batched_tokens)
    before = min(cached, STEP.max_model_len - tokens)
    prompts = Pass(prompts=1, prompt_tokens=tokens, cached_tokens=before)
    held = min(context, STEP.kv_tokens / sequences)
    in_a_step_ms = pass_ms(served, prompts) + pass_ms(served, decode(sequences, context=held))
    assert in_a_step_ms / 1000 <= on_an_h100(STEP)


def test_it_grows_with_the_tokens_of_a_step_and_with_what_they_attend_to() -> None:
    shorter = FullStep(batched_tokens=8192, max_model_len=8192, max_num_seqs=128, kv_tokens=400_000)
    smaller = FullStep(
        batched_tokens=2048, max_model_len=16_384, max_num_seqs=128, kv_tokens=400_000
    )
    assert on_an_h100(shorter) < on_an_h100(STEP)
    assert on_an_h100(smaller) < on_an_h100(STEP)


def test_many_prompts_of_full_length_fit_in_a_step_that_is_longer() -> None:
    step = FullStep(batched_tokens=8192, max_model_len=2048, max_num_seqs=8, kv_tokens=16_384)
    assert (step.prompts, step.prompt_tokens, step.cached_tokens) == (4, 2048, 0)


def test_processors_take_the_time_of_their_operations() -> None:
    """Per token 2 x 134,515,008 operations, and in attention 4 x 30 layers x 9 heads x 64 for each
    token before it, 1,024 on average."""
    step = FullStep(batched_tokens=2048, max_model_len=2048, max_num_seqs=8, kv_tokens=20_000)
    operations = 2 * 134_515_008 * 2056 + 4 * 30 * 9 * 64 * 2048 * 1024
    assert on_processors_s(SMALL, step, threads=2) == pytest.approx(operations / (2 * 75e9))
    assert on_processors_s(SMALL, step, threads=1) == pytest.approx(operations / 75e9)
