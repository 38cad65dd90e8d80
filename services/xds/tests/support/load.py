"""A steady stream of small requests, and what came back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp

WORKERS = 8


@contextlib.asynccontextmanager
async def load(url: str, model: str) -> AsyncIterator[Counter[str]]:
    """Outcomes so far: a replica's marker for 200, else status and body, or the error's type."""
    outcomes: Counter[str] = Counter()
    stop = asyncio.Event()

    async def worker(session: aiohttp.ClientSession) -> None:
        while not stop.is_set():
            outcomes[await _outcome(session, url, model)] += 1

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as workers:
        for _ in range(WORKERS):
            workers.create_task(worker(session))
        try:
            yield outcomes
        finally:
            stop.set()


async def _outcome(session: aiohttp.ClientSession, url: str, model: str) -> str:
    try:
        async with session.post(f"{url}/v1/completions", json={"model": model}) as response:
            if response.status == 200:
                return str((await response.json())["marker"])
            return f"HTTP {response.status}: {await response.text()}"
    except aiohttp.ClientError as error:
        return type(error).__name__
