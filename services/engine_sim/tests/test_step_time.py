"""The profiles against the figures they are derived from."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulator.core.scheduler import Limits, Scheduler
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile, UnknownProfileError, load_profile

PROFILES = Path(__file__).parent.parent / "profiles.json"


def profile(name: str, architecture: str) -> Profile:
    return load_profile(PROFILES, profile=name, architecture=architecture)


def closed_loop(
    constants: Profile, *, streams: int, requests: int, prompt: int, output: int, budget: int
) -> tuple[float, float]:
    """Tokens/s and mean milliseconds per output token with `streams` requests at any moment."""
    limits = Limits(max_num_seqs=streams, token_budget=budget, kv_blocks=100_000)
    scheduler = Scheduler(limits)
    waiting = [
        Sequence(
            prompt=range(number * prompt, (number + 1) * prompt),
            max_tokens=output,
            output_token=lambda index: -index,
        )
        for number in reversed(range(requests))
    ]
    now_ms, decoding_ms = 0.0, 0.0
    first_token_ms = dict[Sequence, float]()
    for _ in range(streams):
        scheduler.add(waiting.pop())
    while scheduler.has_work:
        step = scheduler.schedule()
        now_ms += constants.step_ms(step)
        for token in scheduler.complete(step):
            if token.index == 0:
                first_token_ms[token.sequence] = now_ms
            if token.last:
                decoding_ms += now_ms - first_token_ms[token.sequence]
                if waiting:
                    scheduler.add(waiting.pop())
    return requests * output / now_ms * 1000, decoding_ms / requests / (output - 1)


def test_the_bf16_profile_reproduces_the_row_it_was_not_fitted_to() -> None:
    tokens_per_s, tpot_ms = closed_loop(
        profile("h100-bf16", "llama-3.1-8b"),
        streams=32,
        requests=256,
        prompt=1024,
        output=256,
        budget=1024 + 31,  # the row's context budget of one prompt, and the other streams
    )
    assert tokens_per_s == pytest.approx(3183, rel=0.02)
    assert tpot_ms == pytest.approx(9.84, rel=0.02)


@pytest.mark.parametrize(("streams", "tokens_per_s"), [(1, 16.5), (8, 82)])
def test_the_cpu_profile_reproduces_the_measured_token_rates(
    streams: int, tokens_per_s: float
) -> None:
    simulated, _ = closed_loop(
        profile("cpu", "smollm2"),
        streams=streams,
        requests=6 * streams,
        prompt=2,
        output=400,
        budget=2048,
    )
    assert simulated == pytest.approx(tokens_per_s, rel=0.02)


def test_the_same_load_takes_the_same_time_every_time() -> None:
    constants = profile("h100-fp8", "llama-3.1-8b")
    runs = [
        closed_loop(constants, streams=4, requests=20, prompt=64, output=16, budget=128)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_a_profile_is_found_by_its_whole_name_or_with_the_architecture() -> None:
    assert profile("h100-fp8-llama-3.1-8b", "any") == profile("h100-fp8", "llama-3.1-8b")


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownProfileError, match=r"'tpu-gpt'.*cpu-smollm2"):
        profile("tpu", "gpt")
