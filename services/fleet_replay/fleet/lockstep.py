"""The core's scheduler over whole runs of steps.

Sequences that decode move in lockstep: each gets one token in every step. So a step does not visit
them; it needs only three numbers: how many they are, how many tokens they read, and how many start
a new KV block. Everything else (prefill, admission, preemption, the prefix cache) is the core's own
code, and a step that runs out of memory is left to the core entirely. Times and counters equal the
core's to the last bit: tests/test_lockstep.py.
"""

from __future__ import annotations

from simulator.core.scheduler import Limits, Output, Scheduler, Step, describe
from simulator.core.sequence import Sequence


class LockstepScheduler(Scheduler):
    """A `Scheduler` that reports only first and last tokens; all others come one per step.

    An answer's blocks enter the prefix cache when the answer ends; the core publishes each block
    when it is full. That matters only for a prompt that contains another's unfinished answer.
    Faults are not simulated here.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._step = 0  # steps scheduled so far
        # Sequences in lockstep, the first ones of `running`, and the step after which each joined.
        self._joined: dict[Sequence, int] = {}
        self._ends: dict[int, list[Sequence]] = {}  # step -> sequences whose last token it makes
        # Step modulo block size -> number of sequences that need a block in it.
        self._crossings: list[dict[Sequence, None]] = [{} for _ in range(limits.block_size)]
        self._context_tokens = 0  # read by the sequences in lockstep in the next step
        self._settled = False  # the last step only decoded, and so does the next

    @property
    def decoding(self) -> int:
        """Sequences in lockstep."""
        return len(self._joined)

    @property
    def context_tokens(self) -> int:
        """Tokens whose KV the sequences in lockstep read in the next step."""
        return self._context_tokens

    @property
    def quiet_steps(self) -> int:
        """A number of next steps that only decode: no sequence starts, ends or is preempted."""
        if not self._settled or not self._joined:
            return 0
        to_first_end = min(self._ends) - self._step - 1
        free_for_each = self.pool.free_blocks // len(self._joined)
        return min(to_first_end, free_for_each * self.limits.block_size)

    def decode(self, steps: int) -> None:
        """Schedules and completes this many of the `quiet_steps` at once."""
        size = self.limits.block_size
        for offset in range(1, min(steps, size) + 1):
            blocks = (steps - offset) // size + 1
            for sequence in self._crossings[(self._step + offset) % size]:
                sequence.blocks += self.pool.allocate(blocks)
        self._step += steps
        self._context_tokens += steps * len(self._joined)

    def add(self, sequence: Sequence) -> None:
        super().add(sequence)
        if len(self.waiting) == 1:  # behind other waiting sequences it waits, too
            self._settled = False

    def abort(self, sequence: Sequence) -> None:
        raise NotImplementedError("the clients of a recorded load do not give up")

    def schedule(self) -> Step:
        growing = self._crossings[(self._step + 1) % self.limits.block_size]
        late = self.running[len(self._joined) :]  # in the middle of its prefill: at most one
        budget = self.limits.token_budget - len(self._joined)
        work = [(one, min(one.length - one.computed, budget)) for one in late]
        missing = sum(
            self._blocks_for(one.computed + tokens) - len(one.blocks) for one, tokens in work
        )
        if len(growing) + missing > self.pool.free_blocks:
            self._leave_lockstep()
            return super().schedule()
        self._step += 1
        for sequence in growing:
            sequence.blocks += self.pool.allocate(1)
        for sequence, tokens in work:
            self._reserve(sequence, tokens)
        self._admit_waiting(work, budget - sum(tokens for _, tokens in work))
        self._settled = not work
        explicit = describe(work)
        return Step(
            work=explicit.work,
            prefill_tokens=explicit.prefill_tokens,
            decode_sequences=explicit.decode_sequences + len(self._joined),
            context_tokens=explicit.context_tokens + self._context_tokens,
        )

    def complete(self, step: Step) -> list[Output]:
        self._context_tokens += len(self._joined)
        outputs = [self._end_decoding(one) for one in self._ends.pop(self._step, ())]
        outputs += super().complete(step)
        for sequence in self.running[len(self._joined) :]:
            if sequence.generated > 0 and sequence.computed == sequence.length - 1:
                self._join(sequence)
        return outputs

    def _join(self, sequence: Sequence) -> None:
        self._joined[sequence] = self._step
        end = self._step + sequence.max_tokens - sequence.generated
        self._ends.setdefault(end, []).append(sequence)
        self._crossings[self._phase(sequence)][sequence] = None
        self._context_tokens += sequence.length

    def _phase(self, sequence: Sequence) -> int:
        """Steps modulo block size in which a sequence that joins now, or leaves, needs a block."""
        return (self._step + 1 - sequence.computed) % self.limits.block_size

    def _leave(self, sequence: Sequence) -> None:
        """Applies the steps since it joined."""
        steps = self._step - self._joined.pop(sequence)
        sequence.generated += steps
        sequence.computed += steps
        del self._crossings[self._phase(sequence)][sequence]
        self._context_tokens -= sequence.length
        self._publish_full_blocks(sequence)

    def _end_decoding(self, sequence: Sequence) -> Output:
        self._leave(sequence)
        self._settled = False
        self.running.remove(sequence)
        self._end(sequence)
        return Output(sequence, sequence.generated - 1, last=True)

    def _leave_lockstep(self) -> None:
        for sequence in list(self._joined):
            self._leave(sequence)
        self._ends.clear()
        self._settled = False
