"""Waiting for a condition that no event announces."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
from collections.abc import Awaitable, Callable

from hang import HANG_S

ADDRESS = "127.94.0.2"
_PORTS = iter(range(20_000, 32_000))


async def eventually(condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Returns once the condition holds; fails with `what` if it never does."""
    try:
        await asyncio.wait_for(_until(condition), HANG_S)
    except asyncio.TimeoutError:
        raise AssertionError(f"not even after {HANG_S:g} s: {what}") from None


async def _until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    while not await _holds(condition):
        await asyncio.sleep(0.005)


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
