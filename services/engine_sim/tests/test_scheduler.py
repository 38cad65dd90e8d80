"""Invariants of the scheduler under arbitrary arrivals and aborts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.core.blocks import BlockPool
from simulator.core.scheduler import Limits, Output, Scheduler
from simulator.core.sequence import Sequence, State

BLOCK = 4


def sequence(prompt: tuple[int, ...], max_tokens: int) -> Sequence:
    return Sequence(prompt=prompt, max_tokens=max_tokens, output_token=lambda index: -1 - index)


def scheduler(seqs: int = 4, budget: int = 16, blocks: int = 12) -> Scheduler:
    limits = Limits(max_num_seqs=seqs, token_budget=budget, kv_blocks=blocks, block_size=BLOCK)
    return Scheduler(limits)


def run_to_the_end(core: Scheduler, max_steps: int = 5000) -> list[Output]:
    outputs: list[Output] = []
    for _ in range(max_steps):
        if not core.has_work:
            return outputs
        outputs += core.complete(core.schedule())
        core.pool.check()
    raise AssertionError(f"not finished after {max_steps} steps")


@dataclass(frozen=True)
class Arrival:
    step: int
    prompt: tuple[int, ...]
    max_tokens: int
    abort_after: int | None  # steps


# Few different tokens: prompts often share a beginning, which exercises the prefix cache.
prompts = st.lists(st.integers(0, 1), min_size=1, max_size=30).map(tuple)
arrivals = st.lists(
    st.builds(
        Arrival,
        step=st.integers(0, 20),
        prompt=prompts,
        max_tokens=st.integers(1, 18),
        abort_after=st.none() | st.integers(0, 10),
    ),
    max_size=12,
)


@settings(max_examples=120)
@given(arrivals=arrivals, seqs=st.integers(1, 5), budget=st.integers(5, 24))
def test_memory_tokens_and_limits_hold_in_every_step(
    arrivals: list[Arrival], seqs: int, budget: int
) -> None:
    core = scheduler(seqs=seqs, budget=budget)
    made: dict[Sequence, list[int]] = {}
    aborts: dict[int, list[Sequence]] = {}
    for now in range(600):
        for arrival in (a for a in arrivals if a.step == now):
            new = sequence(arrival.prompt, arrival.max_tokens)
            core.add(new)
            made[new] = []
            if arrival.abort_after is not None:
                aborts.setdefault(now + arrival.abort_after, []).append(new)
        step = core.schedule()
        assert sum(tokens for _, tokens in step.work) <= budget
        assert len(core.running) <= seqs
        assert all(tokens >= 1 for _, tokens in step.work)
        for aborted in aborts.get(now, []):  # between schedule and complete: the critical moment
            core.abort(aborted)
        for output in core.complete(step):
            assert output.sequence not in aborts.get(now, [])
            made[output.sequence].append(output.index)
        core.pool.check()
    assert not core.has_work
    assert core.pool.free_blocks == core.limits.kv_blocks
    assert core.counters.prefix_cache_hits <= core.counters.prefix_cache_queries
    aborted_ones = {one for batch in aborts.values() for one in batch}
    for one, indices in made.items():
        assert indices == list(range(len(indices)))
        assert one.state is State.FINISHED
        if one not in aborted_ones:
            assert len(indices) == one.max_tokens


@settings(max_examples=60)
@given(prompts=st.lists(prompts, min_size=2, max_size=10))
def test_first_tokens_come_in_order_of_arrival(prompts: list[tuple[int, ...]]) -> None:
    core = scheduler(seqs=3, budget=8, blocks=200)
    queued = [sequence(prompt, 5) for prompt in prompts]
    for one in queued:
        core.add(one)
    first = [output.sequence for output in run_to_the_end(core) if output.index == 0]
    assert first == queued


def test_a_long_prompt_is_computed_in_chunks_beside_running_sequences() -> None:
    core = scheduler(seqs=2, budget=8, blocks=40)
    core.add(sequence((1, 2), 20))
    core.complete(core.schedule())
    core.add(sequence(tuple(range(30)), 1))
    step = core.schedule()
    assert (step.decode_sequences, step.prefill_tokens) == (1, 7)
    assert len(core.complete(step)) == 1


def test_when_memory_runs_out_the_youngest_waits_and_still_gets_every_token() -> None:
    core = scheduler(seqs=3, budget=16, blocks=6)
    old, young = sequence((1, 2, 3, 4), 12), sequence((5, 6, 7, 8), 12)
    core.add(old)
    core.add(young)
    outputs = run_to_the_end(core)
    assert core.counters.preemptions >= 1
    finished = [output.sequence for output in outputs if output.last]
    assert finished == [old, young]
    assert [o.index for o in outputs if o.sequence is young] == list(range(12))


def test_a_repeated_prompt_is_found_in_the_cache_except_for_its_last_token() -> None:
    core = scheduler(blocks=40)
    prompt = tuple(range(3 * BLOCK))
    for _ in range(2):
        core.add(sequence(prompt, 1))
        run_to_the_end(core)
    assert core.counters.prefix_cache_queries == 2 * len(prompt)
    assert core.counters.prefix_cache_hits == 2 * BLOCK


def test_a_different_start_is_never_a_cache_hit() -> None:
    core = scheduler(blocks=40)
    core.add(sequence((1, *range(10, 30)), 1))
    run_to_the_end(core)
    core.add(sequence((2, *range(10, 30)), 1))
    run_to_the_end(core)
    assert core.counters.prefix_cache_hits == 0


def test_an_answer_that_comes_back_as_a_prompt_is_found_in_the_cache() -> None:
    core = scheduler(blocks=40)
    first = sequence(tuple(range(BLOCK)), 2 * BLOCK)
    core.add(first)
    run_to_the_end(core)
    conversation = first.tokens(0, 3 * BLOCK)
    core.add(sequence((*conversation, 99), 1))
    run_to_the_end(core)
    assert core.counters.prefix_cache_hits == 2 * BLOCK  # its last token was never computed


def test_the_least_recently_released_block_is_forgotten_first() -> None:
    pool = BlockPool(2)
    for content in (11, 22):
        blocks = pool.allocate(1)
        pool.publish(blocks, [content])
        pool.release(blocks)
    pool.hold(pool.find_prefix([11]))
    pool.release(pool.find_prefix([11]))
    pool.allocate(1)
    assert pool.find_prefix([11]) != []
    assert pool.find_prefix([22]) == []


def test_a_sequence_that_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="never fit"):
        scheduler(blocks=2).add(sequence((1,) * 8, 1))


def test_withheld_memory_stops_admission_and_comes_back_whole() -> None:
    core = scheduler()
    core.kv_full = True
    core.add(sequence((1, 2, 3), 2))
    assert core.schedule().idle
    assert core.pool.usage == 1
    core.pool.check()
    core.kv_full = False
    assert len(run_to_the_end(core)) == 2
    assert core.pool.usage == 0


def test_releasing_a_block_twice_is_an_error() -> None:
    pool = BlockPool(1)
    blocks = pool.allocate(1)
    pool.release(blocks)
    with pytest.raises(ValueError, match="more often than it was held"):
        pool.release(blocks)
