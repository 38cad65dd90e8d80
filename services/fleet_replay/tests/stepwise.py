"""One engine, step by step on a simulated clock: the reference for the replay's lockstep."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from fleet.engine import Timing
from simulator.core.scheduler import Scheduler
from simulator.core.sequence import Sequence
from simulator.core.step_time import Profile


def replay(
    scheduler: Scheduler,
    profile: Profile,
    arrivals: Iterable[tuple[float, Sequence]],
) -> dict[Sequence, Timing]:
    """Serves all `arrivals`, (milliseconds, sequence) pairs; returns their times."""
    pending = deque(sorted(arrivals, key=lambda arrival: arrival[0]))
    timings: dict[Sequence, Timing] = {}
    now_ms = 0.0

    while pending or scheduler.has_work:
        if not scheduler.has_work:
            now_ms = max(now_ms, pending[0][0])
        while pending and pending[0][0] <= now_ms:
            arrived_ms, sequence = pending.popleft()
            timings[sequence] = Timing(arrived_ms)
            scheduler.add(sequence)
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
    return timings
