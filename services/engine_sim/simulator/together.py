"""Tasks that end together, as those of asyncio.TaskGroup, which Python has from 3.11 on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


class Together:
    """The first failure cancels the other tasks; so does the cancellation of `ended`."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, work: Coroutine[None, None, None], name: str = "") -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name or None)
        self._running.add(task)
        task.add_done_callback(self._on_end)
        return task

    async def ended(self) -> None:
        """Waits for all tasks, also for those that start meanwhile. Raises the first failure."""
        try:
            await self._over
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        failure = None if task.cancelled() else task.exception()
        if self._over.done():
            return
        if failure is not None:
            self._over.set_exception(failure)
        elif not self._running:
            self._over.set_result(None)
