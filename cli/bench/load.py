"""Clients that each have one question in flight, until all have been asked."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field

from cli.bench.client_watch import ClientWatch
from cli.bench.outcome import Ask, Door, Outcome
from cli.bench.workload import Prompt


@dataclass(slots=True, kw_only=True)
class Run:
    """What came of the prompts so far. `interrupted` without the rest, of which `in_flight` had
    been sent."""

    clients: int
    outcomes: list[Outcome] = field(default_factory=list)
    interrupted: bool = False
    in_flight: int = 0


async def drive(door: Door, prompts: Sequence[Prompt], run: Run, watch: ClientWatch) -> None:
    """Asks the prompts in their order by `run.clients` clients. A cancellation (Ctrl-C) ends it
    with what has been answered so far."""
    waiting = iter(prompts)
    async with AsyncExitStack() as opened:
        clients = [opened.enter_async_context(door.client()) for _ in range(run.clients)]
        asks = await asyncio.gather(*clients)
        with _without_garbage_collection():
            async with watch:
                tasks = [asyncio.create_task(_ask_all(ask, waiting, run)) for ask in asks]
                try:
                    await asyncio.gather(*tasks)
                except asyncio.CancelledError:
                    await _end(tasks, run)


async def _ask_all(ask: Ask, waiting: Iterator[Prompt], run: Run) -> None:
    for prompt in waiting:
        run.in_flight += 1
        run.outcomes.append(await ask(prompt))
        run.in_flight -= 1


async def _end(tasks: Sequence[asyncio.Task[None]], run: Run) -> None:
    own = asyncio.current_task()
    if own is not None:
        own.uncancel()
    run.interrupted = True
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Its pauses would be in the times."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
