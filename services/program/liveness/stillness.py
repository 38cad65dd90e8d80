"""How long something that has work has stood still. Pure: whoever looks brings the time along."""

from __future__ import annotations

from program.liveness.progress import Seen

LEAST_LIMIT_S = 1.0
LIMIT_STEPS = 2.0  # in the time of so many of the longest steps, one must end
LEAST_BEAT_LIMIT_S = 3.0  # of parts that beat several times a second and have no step


def limit_s(longest_step_s: float) -> float:
    """How long work may be outstanding without the end of a step."""
    return max(LEAST_LIMIT_S, LIMIT_STEPS * longest_step_s)


class Stillness:
    """Adds up the time between looks that saw work outstanding and the same number of steps.

    Only a step that ends takes it back. Work that is withdrawn does not: clients leave an engine
    that stands still, and come again.
    """

    def __init__(self) -> None:
        self.still_for_s = 0.0
        self._last = Seen(0, 0)

    def is_suspect(self, now: Seen) -> bool:
        """Whether nothing has moved since the last look, although there was work all the time."""
        last = self._last
        return now.steps == last.steps and bool(last.outstanding) and bool(now.outstanding)

    def look(self, now: Seen, since_last_look_s: float) -> None:
        if now.steps != self._last.steps:
            self.still_for_s = 0.0
        elif self.is_suspect(now):
            self.still_for_s += since_last_look_s
        self._last = now
