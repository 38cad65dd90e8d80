"""Asks Prometheus what engines report now."""

from __future__ import annotations

import aiohttp

from .signals import QUERY, Signal, signals

_TIMEOUT = aiohttp.ClientTimeout(total=4)


async def reported(session: aiohttp.ClientSession) -> dict[str, Signal]:
    """By replica. Raises aiohttp.ClientError, asyncio.TimeoutError, and ValueError for an answer
    that is none."""
    async with session.post("/api/v1/query", data={"query": QUERY}, timeout=_TIMEOUT) as response:
        response.raise_for_status()
        answer = await response.json()
    try:
        return signals(answer["data"]["result"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an answer of Prometheus: {error!r}") from error
