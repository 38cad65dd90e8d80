from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from cli.ui.live import Latest
from cli.ui.observation import Observation
from tests.unit.cli.ui.observations import observation
from tests.waiting import HANG_S


@dataclass
class Hangs:
    """A platform that answers once it is let go."""

    free: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    def observe(self) -> Observation:
        self.asked += 1
        assert self.free.wait(HANG_S)
        return observation()


async def turns() -> None:
    """Enough of the event loop's for a thread to be started."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_visitors_who_leave_leave_one_observation() -> None:
    platform = Hangs()
    latest = Latest(observer=platform, when_silent="", now_s=lambda: 0.0)
    for _ in range(15):
        visitor = asyncio.create_task(latest.observation())
        await turns()
        visitor.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visitor
    waiting = asyncio.create_task(latest.observation())
    await asyncio.sleep(0)
    platform.free.set()
    assert await waiting is await latest.observation()
    assert platform.asked == 1
