"""Changes that come in bursts are acted on together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Burst:
    """How many changes are acted on together, and the time of the first (the clock's seconds)."""

    changes: int
    began_s: float


class Coalescing:
    """Acts on a change at once if it is quiet, else at the end of the pause after the last act: a
    change is never delayed by more than `pause_s`, and never acted on for itself in a burst."""

    def __init__(
        self, act: Callable[[Burst], None], *, pause_s: float, clock: Callable[[], float]
    ) -> None:
        self._act = act
        self._pause_s = pause_s
        self._clock = clock
        self._changes = 0
        self._began_s = 0.0
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()

    def changed(self) -> None:
        if not self._changes:
            self._began_s = self._clock()
        self._changes += 1
        self._changed.set()

    def changed_urgently(self) -> None:
        """Does not wait for the end of the pause."""
        self.changed()
        self._urgent.set()

    async def run(self) -> None:
        """Until cancelled. Raises what `act` raises."""
        while True:
            await self._changed.wait()
            burst, self._changes = Burst(self._changes, self._began_s), 0
            self._changed.clear()
            self._urgent.clear()
            self._act(burst)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), self._pause_s)
