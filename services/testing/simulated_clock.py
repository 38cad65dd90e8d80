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

    def __init__(self, input_s: float = 0.0) -> None:
        self._jumping = _Jumping(input_s)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


class _Jumping(selectors.SelectSelector):
    """Where there is no input it does not wait, but moves the clock to the next timer. Input that
    other threads or the kernel make is given `input_s` of the real time first."""

    def __init__(self, input_s: float) -> None:
        super().__init__()
        self.now_s = 0.0
        self._input_s = input_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        if came := super().select(self._input_s if timeout else 0):
            self.now_s += _TURN_S
            return came
        self.now_s += max(_TURN_S, timeout)
        return []


def simulated(work: Coroutine[Any, Any, _Result], *, input_s: float = 0.0) -> _Result:
    """Runs it on a simulated clock; what its sockets exchange comes within `input_s`."""
    loop = SimulatedClock(input_s)
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
