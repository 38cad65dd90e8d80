from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import anyio
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


async def test_visitors_who_leave_leave_one_observation() -> None:
    platform = Hangs()
    latest = Latest(observer=platform, when_silent="", now_s=lambda: 0.0)
    for _ in range(15):
        visitor = asyncio.create_task(latest.observation())
        await anyio.wait_all_tasks_blocked()
        visitor.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visitor
    waiting = asyncio.create_task(latest.observation())
    await anyio.wait_all_tasks_blocked()
    platform.free.set()
    assert await waiting is await latest.observation()
    assert platform.asked == 1
