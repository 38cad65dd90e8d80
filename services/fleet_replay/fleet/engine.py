"""One engine on a simulated clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from simulator.core.scheduler import Limits, Output, Step
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile

from fleet.lockstep import LockstepScheduler

Deliver = Callable[[Output, float], None]  # a first or last token, and its time


@dataclass(slots=True)
class Timing:
    """Milliseconds on the simulated clock."""

    arrived_ms: float
    first_token_ms: float | None = None
    finished_ms: float | None = None


class Engine:
    """Steps follow each other without a gap as long as there is work."""

    def __init__(self, limits: Limits, profile: Profile, deliver: Deliver) -> None:
        self.scheduler = LockstepScheduler(limits)
        self.profile = profile
        self.in_flight = 0
        self._deliver = deliver
        self._now_ms = 0.0  # when the step under way ends, or when the last one ended
        self._under_way: Step | None = None

    def enter(self, sequence: Sequence, now_ms: float) -> None:
        """Adds a request that arrives at `now_ms`, up to which the engine has been run."""
        self._now_ms = max(self._now_ms, now_ms)
        self.in_flight += 1
        self.scheduler.add(sequence)

    def run_until(self, until_ms: float) -> None:
        """Completes every step that ends by then, and begins every step that starts before."""
        while self._now_ms <= until_ms:
            if self._under_way is not None:
                self._complete(self._under_way)
            if not self.scheduler.has_work or self._now_ms >= until_ms:
                return
            if self.scheduler.quiet_steps:
                self._decode_until(until_ms)
            else:
                self._begin()

    def run_to_the_end(self) -> float:
        """Serves all requests; returns the time at which that was done."""
        self.run_until(math.inf)
        return self._now_ms

    def _begin(self) -> None:
        self._under_way = self.scheduler.schedule()
        self._now_ms += self.profile.step_ms(self._under_way)

    def _complete(self, step: Step) -> None:
        self._under_way = None
        for output in self.scheduler.complete(step):
            if output.last:
                self.in_flight -= 1
            self._deliver(output, self._now_ms)

    def _decode_until(self, until_ms: float) -> None:
        """Runs quiet steps, the last of which may end later. Their times are added one by one, so
        that the sum equals the core's."""
        scheduler, pass_ms = self.scheduler, self.profile.pass_ms
        decoding, context_tokens = scheduler.decoding, scheduler.context_tokens
        now_ms, steps, quiet_steps = self._now_ms, 0, scheduler.quiet_steps
        while steps < quiet_steps and now_ms < until_ms:
            now_ms += pass_ms(0, decoding, context_tokens)
            context_tokens += decoding
            steps += 1
        scheduler.decode(steps)
        self._now_ms = now_ms


def serve(
    limits: Limits, profile: Profile, arrivals: Iterable[tuple[float, Sequence]]
) -> tuple[dict[Sequence, Timing], Engine]:
    """Serves `arrivals`, (milliseconds, sequence) pairs in order of time; returns their times and
    the engine. The times equal those of the step-by-step core (tests/stepwise.py)."""
    timings: dict[Sequence, Timing] = {}

    def deliver(output: Output, now_ms: float) -> None:
        if output.index == 0:
            timings[output.sequence].first_token_ms = now_ms
        if output.last:
            timings[output.sequence].finished_ms = now_ms

    engine = Engine(limits, profile, deliver)
    for arrived_ms, sequence in arrivals:
        engine.run_until(arrived_ms)
        timings[sequence] = Timing(arrived_ms)
        engine.enter(sequence, arrived_ms)
    engine.run_to_the_end()
    return timings, engine
