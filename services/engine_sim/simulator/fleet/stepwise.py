"""One engine, step by step on a clock of its own: what lockstep.py is held against."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from simulator.core.scheduler import Scheduler
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile


@dataclass(slots=True)
class Timing:
    """Milliseconds on the simulated clock."""

    arrived_ms: float
    first_token_ms: float | None = None
    finished_ms: float | None = None


def replay(
    scheduler: Scheduler,
    profile: Profile,
    arrivals: Iterable[tuple[float, Sequence]],
    on_finish: Callable[[float], Sequence | None] = lambda _now_ms: None,
) -> dict[Sequence, Timing]:
    """Serve `arrivals`, (milliseconds, sequence) pairs in order of time, until none is left.

    `on_finish` is told the time whenever a sequence ends and may return the next one, which
    makes a closed loop.
    """
    pending = deque(sorted(arrivals, key=lambda arrival: arrival[0]))
    timings: dict[Sequence, Timing] = {}
    now_ms = 0.0

    def enter(arrived_ms: float, sequence: Sequence) -> None:
        timings[sequence] = Timing(arrived_ms)
        scheduler.add(sequence)

    while pending or scheduler.has_work:
        if not scheduler.has_work:
            now_ms = max(now_ms, pending[0][0])
        while pending and pending[0][0] <= now_ms:
            enter(*pending.popleft())
        step = scheduler.schedule()
        if step.idle:
            raise RuntimeError("sequences wait but none can run: the KV memory is withheld")
        now_ms += profile.step_ms(step)
        for output in scheduler.complete(step):
            timing = timings[output.sequence]
            if output.index == 0:
                timing.first_token_ms = now_ms
            if output.last:
                timing.finished_ms = now_ms
                following = on_finish(now_ms)
                if following is not None:
                    enter(now_ms, following)
    return timings
