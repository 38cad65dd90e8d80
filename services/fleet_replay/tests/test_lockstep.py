"""Whole runs of steps against the step-by-step core: the same times to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fleet.content import sequences
from fleet.engine import Timing, serve
from fleet.lockstep import LockstepScheduler
from fleet.trace import Request
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.core.scheduler import Counters, Limits, Scheduler
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile
from stepwise import replay

PROFILE = Profile(
    name="test",
    kv_bytes_per_token=1,
    base_ms=5.1763,
    prefill_token_ms=0.3,
    sequence_ms=0.015052,
    context_token_ms=0.0040937,
    source="",
    date="",
)
Outcome = tuple[list[Timing], Counters]

# Few ids and small blocks: prompts often share a beginning, which exercises the prefix cache.
BLOCK = 256


@st.composite
def requests(draw: st.DrawFn) -> Request:
    input_tokens = draw(st.integers(1, 1200))
    ids = -(-input_tokens // 512)
    prefix = draw(st.integers(0, 2))
    return Request(
        arrived_ms=draw(st.integers(0, 40).map(lambda ms: ms * 12.5)),
        input_tokens=input_tokens,
        output_tokens=draw(st.integers(1, 300)),
        hash_ids=tuple(10 * prefix + i for i in range(ids)) if draw(st.booleans()) else (),
    )


traces = st.lists(requests(), min_size=1, max_size=8).map(
    lambda found: sorted(found, key=lambda request: request.arrived_ms)
)
limits = st.builds(
    lambda seqs, extra, blocks: Limits(
        max_num_seqs=seqs, token_budget=seqs + extra, kv_blocks=blocks, block_size=BLOCK
    ),
    seqs=st.integers(1, 5),
    extra=st.integers(0, 900),
    blocks=st.integers(6, 20),  # 1,500 tokens: the largest request alone
)


def arrivals(trace: list[Request]) -> list[tuple[float, Sequence]]:
    pairs = zip(trace, sequences(trace, BLOCK), strict=True)
    return [(request.arrived_ms, sequence) for request, sequence in pairs]


def by_the_core(trace: list[Request], limits: Limits) -> Outcome:
    scheduler = Scheduler(limits)
    return list(replay(scheduler, PROFILE, arrivals(trace)).values()), scheduler.counters


def one_step_at_a_time(trace: list[Request], limits: Limits) -> Outcome:
    scheduler = LockstepScheduler(limits)
    return list(replay(scheduler, PROFILE, arrivals(trace)).values()), scheduler.counters


def in_runs(trace: list[Request], limits: Limits) -> Outcome:
    timings, engine = serve(limits, PROFILE, arrivals(trace))
    engine.scheduler.pool.check()
    assert engine.in_flight == 0
    assert engine.scheduler.pool.free_blocks == limits.kv_blocks
    return list(timings.values()), engine.scheduler.counters


@pytest.mark.parametrize("other", [one_step_at_a_time, in_runs])
@settings(max_examples=100)
@given(trace=traces, limits=limits)
def test_times_and_counters_are_those_of_the_core(
    other: Callable[[list[Request], Limits], Outcome], trace: list[Request], limits: Limits
) -> None:
    assert other(trace, limits) == by_the_core(trace, limits)


def test_the_comparison_reaches_preemption_and_the_prefix_cache() -> None:
    trace = [
        Request(arrived_ms=25.0 * n, input_tokens=600, output_tokens=600, hash_ids=(1, 2))
        for n in range(4)
    ]
    tight = Limits(max_num_seqs=4, token_budget=512, kv_blocks=12, block_size=BLOCK)
    outcome = by_the_core(trace, tight)
    assert outcome[1].preemptions > 0
    assert outcome[1].prefix_cache_hits > 0
    assert in_runs(trace, tight) == outcome


def test_the_turns_of_a_session_find_each_other_as_in_the_core() -> None:
    turns = ((0.0, 700, 300), (4000.0, 1200, 100), (8000.0, 600, 10))  # the last one starts anew
    trace = [
        Request(arrived_ms=at_ms, input_tokens=prompt, output_tokens=output, session="a")
        for at_ms, prompt, output in turns
    ]
    wide = Limits(max_num_seqs=4, token_budget=512, kv_blocks=20, block_size=BLOCK)
    outcome = by_the_core(trace, wide)
    assert outcome[1].prefix_cache_hits == 3 * BLOCK
    assert in_runs(trace, wide) == outcome


def test_a_run_is_not_stepped_through() -> None:
    scheduler = LockstepScheduler(
        Limits(max_num_seqs=2, token_budget=2048, kv_blocks=100, block_size=16)
    )
    request = Request(arrived_ms=0, input_tokens=100, output_tokens=500)
    scheduler.add(next(sequences([request], 16)))
    scheduler.complete(scheduler.schedule())  # the prompt
    scheduler.complete(scheduler.schedule())  # this step finds no waiting sequence
    assert scheduler.quiet_steps == 497  # the last token is an event again


def test_a_recorded_client_does_not_give_up() -> None:
    scheduler = LockstepScheduler(Limits(max_num_seqs=1, token_budget=1, kv_blocks=1))
    (sequence,) = sequences([Request(arrived_ms=0, input_tokens=1, output_tokens=1)], 16)
    with pytest.raises(NotImplementedError):
        scheduler.abort(sequence)
