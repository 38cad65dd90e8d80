"""The first of several attempts that succeeds, where one that fails may not say so for long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class AllFailedError(Exception):
    """No attempt has succeeded. `errors` are in the order of the attempts."""

    def __init__(self, errors: Sequence[Exception]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


async def first(
    attempts: Sequence[Callable[[], Coroutine[Any, Any, T]]],
    discard: Callable[[T], Awaitable[object]],
    *,
    head_start_s: float,
) -> tuple[int, T]:
    """The number and the result of an attempt. Each begins when the one before has failed, or has
    had its head start; `discard` ends what a late one has made. Raises AllFailedError."""
    errors: dict[int, Exception] = {}
    running: dict[asyncio.Task[T], int] = {}
    left = list(enumerate(attempts))
    try:
        while left or running:
            if left:
                number, attempt = left.pop(0)
                running[asyncio.create_task(attempt())] = number
            done, _ = await asyncio.wait(
                running,
                timeout=head_start_s if left else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                number = running.pop(task)
                try:
                    return number, task.result()
                except Exception as error:
                    errors[number] = error
    finally:
        for task in running:
            task.cancel()
        for late in await asyncio.gather(*running, return_exceptions=True):
            if not isinstance(late, BaseException):
                await discard(late)
    raise AllFailedError([errors[number] for number in sorted(errors)])
