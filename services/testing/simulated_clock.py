"""An event loop with a clock of its own, which only waiting moves."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


# Of the loop: who waits for less than a clock can tell would otherwise wait for ever.
_TURN_S = 1e-9


class SimulatedClock(asyncio.SelectorEventLoop):
    """Waiting takes no time, and a turn of the loop a nanosecond."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


class _Jumping(selectors.SelectSelector):
    """Instead of waiting for input it moves the clock to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        self.now_s += max(_TURN_S, timeout)
        return super().select(0)


def simulated(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs it on a simulated clock."""
    loop = SimulatedClock()
    try:
        return loop.run_until_complete(_and_no_longer(work))
    finally:
        loop.close()


async def _and_no_longer(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The tasks that it has started end with it."""
    try:
        return await work
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_asyncgens()


def now_s() -> float:
    """Of the simulated clock on which the caller runs."""
    return asyncio.get_running_loop().time()
