"""Changes in bursts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from control_plane.coalescing import Burst, Coalescing
from hang import HANG_S


class Acts:
    """What was acted on; each act can be waited for."""

    def __init__(self) -> None:
        self.bursts: list[Burst] = []
        self._more = asyncio.Event()

    def __call__(self, burst: Burst) -> None:
        self.bursts.append(burst)
        self._more.set()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(HANG_S):
            while len(self.bursts) < count:
                self._more.clear()
                await self._more.wait()


@contextlib.asynccontextmanager
async def running(acts: Acts, pause_s: float) -> AsyncIterator[Coalescing]:
    """With a clock that counts how often it is asked."""
    coalescing = Coalescing(acts, pause_s=pause_s, clock=itertools.count().__next__)
    task = asyncio.create_task(coalescing.run())
    try:
        yield coalescing
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_change_after_a_quiet_time_is_acted_on_at_once() -> None:
    acts = Acts()
    async with running(acts, HANG_S) as coalescing:
        coalescing.changed()
        await acts.reach(1)
    assert acts.bursts == [Burst(changes=1, began_s=0)]


async def test_changes_during_the_pause_are_acted_on_together_at_its_end() -> None:
    acts = Acts()
    async with running(acts, 0.05) as coalescing:
        coalescing.changed()
        await acts.reach(1)
        for _ in range(10):
            coalescing.changed()
        await acts.reach(2)
    assert acts.bursts == [Burst(changes=1, began_s=0), Burst(changes=10, began_s=1)]


async def test_an_urgent_change_takes_the_waiting_ones_with_it() -> None:
    acts = Acts()
    async with running(acts, HANG_S) as coalescing:
        coalescing.changed()
        await acts.reach(1)
        coalescing.changed()
        coalescing.changed_urgently()
        await acts.reach(2)
    assert [burst.changes for burst in acts.bursts] == [1, 2]


async def test_a_failure_ends_it() -> None:
    def fail(_: Burst) -> None:
        raise RuntimeError("no")

    coalescing = Coalescing(fail, pause_s=0, clock=itertools.count().__next__)
    coalescing.changed()
    with pytest.raises(RuntimeError, match="no"):
        await coalescing.run()
