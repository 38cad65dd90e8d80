"""Waiting for a condition that no event announces."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
from collections.abc import Awaitable, Callable

ADDRESS = "127.94.0.2"
_PORTS = iter(range(20_000, 32_000))


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], what: str, *, within_s: float = 10.0
) -> None:
    """Returns once the condition holds; fails with `what` when it does not in time."""
    try:
        async with asyncio.timeout(within_s):
            while not await _holds(condition):
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {within_s} s: {what}") from None


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    result = condition()
    return await result if inspect.isawaitable(result) else bool(result)


def free_port() -> int:
    """A port below the ephemeral range, so that no outgoing connection takes it meanwhile."""
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((ADDRESS, port))
            return port
    raise AssertionError("no port is free")
