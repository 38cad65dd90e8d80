"""Continuous batching with chunked prefill, preemption and a prefix cache.

The order of decisions is vLLM's: sequences that run come first, in order of arrival; when memory
runs out the youngest one is preempted (its blocks are freed and it is computed again later);
waiting sequences are admitted strictly in order of arrival, and not in a step that preempted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from simulator.core.blocks import BlockPool
from simulator.core.sequence import Sequence, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`token_budget` is vLLM's max_num_batched_tokens: tokens computed in one step."""

    max_num_seqs: int
    token_budget: int
    kv_blocks: int
    block_size: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one forward pass computes: (sequence, number of tokens) pairs and their totals."""

    work: tuple[tuple[Sequence, int], ...]
    prefill_tokens: int
    decode_sequences: int
    context_tokens: int  # tokens whose KV the decoding sequences read

    @property
    def idle(self) -> bool:
        return not (self.prefill_tokens or self.decode_sequences)


@dataclass(frozen=True, slots=True)
class Output:
    """Token number `index` (from 0) of a sequence."""

    sequence: Sequence
    index: int
    last: bool


@dataclass(slots=True)
class Counters:
    """Totals since the start, in tokens unless named otherwise."""

    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    preemptions: int = 0  # sequences


class Scheduler:
    """Alternate `schedule` and `complete`; `add` and `abort` may come at any moment between."""

    def __init__(self, limits: Limits) -> None:
        if limits.token_budget < limits.max_num_seqs:
            raise ValueError(
                f"the token budget of a step ({limits.token_budget}) must be at least "
                f"max_num_seqs ({limits.max_num_seqs})"
            )
        self.limits = limits
        self.pool = BlockPool(limits.kv_blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.counters = Counters()
        self.kv_full = False

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence. It must fit in memory on its own."""
        tokens = len(sequence.prompt) + sequence.max_tokens
        if self._blocks_for(tokens) > self.limits.kv_blocks:
            raise ValueError(f"{tokens} tokens never fit {self.limits.kv_blocks} KV blocks")
        if not sequence.prompt or sequence.max_tokens < 1:
            raise ValueError("a sequence needs a prompt and at least one output token")
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Forget a sequence; one that is already finished is left alone."""
        if sequence.state is State.RUNNING:
            self.running.remove(sequence)
        elif sequence.state is State.WAITING:
            self.waiting.remove(sequence)
        self._end(sequence)

    def schedule(self) -> Step:
        """Choose the work of the next forward pass and reserve its memory."""
        if self.kv_full:
            self.pool.withhold_free()
        else:
            self.pool.return_withheld()
        preemptions_before = self.counters.preemptions
        work = self._continue_running()
        if self.counters.preemptions == preemptions_before:
            self._admit_waiting(work, self.limits.token_budget - sum(n for _, n in work))
        return describe(work)

    def complete(self, step: Step) -> list[Output]:
        """Account for a finished pass; a sequence aborted meanwhile yields nothing."""
        outputs = []
        for sequence, tokens in step.work:
            if sequence.state is not State.RUNNING:
                continue
            sequence.computed += tokens
            self._publish_full_blocks(sequence)
            if sequence.computed < sequence.length:
                continue  # the prompt is not fully computed yet
            sequence.generated += 1
            last = sequence.generated >= sequence.max_tokens
            outputs.append(Output(sequence, sequence.generated - 1, last))
            if last:
                self.running.remove(sequence)
                self._end(sequence)
        return outputs

    def _continue_running(self) -> list[tuple[Sequence, int]]:
        work: list[tuple[Sequence, int]] = []
        budget = self.limits.token_budget
        position = 0
        while position < len(self.running) and budget > 0:
            sequence = self.running[position]
            tokens = min(sequence.length - sequence.computed, budget)
            while not self._reserve(sequence, tokens):
                if self._preempt_youngest() is sequence:
                    return work
            work.append((sequence, tokens))
            budget -= tokens
            position += 1
        return work

    def _admit_waiting(self, work: list[tuple[Sequence, int]], budget: int) -> None:
        """Add to `work` the sequences that may start within `budget` tokens in this step."""
        while self.waiting and len(self.running) < self.limits.max_num_seqs and budget > 0:
            sequence = self.waiting[0]
            cached = self._cached_prefix(sequence)
            cached_tokens = len(cached) * self.limits.block_size
            tokens = min(sequence.length - cached_tokens, budget)
            new_blocks = self._blocks_for(cached_tokens + tokens) - len(cached)
            if not self.pool.can_hold(cached, new_blocks):
                return
            self.waiting.popleft()
            self.pool.hold(cached)
            sequence.blocks = [*cached, *self.pool.allocate(new_blocks)]
            sequence.computed = cached_tokens
            sequence.published = len(cached)
            self._start(sequence, cached_tokens)
            work.append((sequence, tokens))
            budget -= tokens

    def _start(self, sequence: Sequence, cached_tokens: int) -> None:
        if sequence.cached_tokens is None:  # a preempted sequence is not counted twice
            sequence.cached_tokens = cached_tokens
            self.counters.prefix_cache_queries += len(sequence.prompt)
            self.counters.prefix_cache_hits += cached_tokens
        sequence.state = State.RUNNING
        self.running.append(sequence)

    def _cached_prefix(self, sequence: Sequence) -> list[int]:
        # The last token is always computed: its result is what gets sampled.
        full_blocks = (sequence.length - 1) // self.limits.block_size
        return self.pool.find_prefix(sequence.block_hashes(full_blocks, self.limits.block_size))

    def _reserve(self, sequence: Sequence, tokens: int) -> bool:
        missing = self._blocks_for(sequence.computed + tokens) - len(sequence.blocks)
        if missing > self.pool.free_blocks:
            return False
        if missing > 0:
            sequence.blocks += self.pool.allocate(missing)
        return True

    def _preempt_youngest(self) -> Sequence:
        victim = self.running.pop()
        self.pool.release(victim.blocks)
        victim.blocks = []
        victim.computed = 0
        victim.published = 0
        victim.state = State.WAITING
        self.waiting.appendleft(victim)
        self.counters.preemptions += 1
        return victim

    def _publish_full_blocks(self, sequence: Sequence) -> None:
        full_blocks = sequence.computed // self.limits.block_size
        if full_blocks == sequence.published:
            return
        hashes = sequence.block_hashes(full_blocks, self.limits.block_size)
        new = slice(sequence.published, full_blocks)
        self.pool.publish(sequence.blocks[new], hashes[new])
        sequence.published = full_blocks

    def _end(self, sequence: Sequence) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.state = State.FINISHED

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)


def describe(work: list[tuple[Sequence, int]]) -> Step:
    """The step that computes these sequences and nothing else."""
    decoding = [sequence for sequence, tokens in work if tokens == 1 and sequence.generated > 0]
    return Step(
        work=tuple(work),
        prefill_tokens=sum(tokens for _, tokens in work) - len(decoding),
        decode_sequences=len(decoding),
        context_tokens=sum(sequence.length for sequence in decoding),
    )
