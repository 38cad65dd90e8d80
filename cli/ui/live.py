"""One observation at a time for all visitors, and the stream of what changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

import anyio
import anyio.to_thread

from cli.ui import rendering
from cli.ui.fragments import changes, digest
from cli.ui.front import front_page
from cli.ui.observation import Observation
from cli.ui.page import Page

INTERVAL_S = 2.0


class Observes(Protocol):
    """observation.Observer, and its stand-ins in tests."""

    def observe(self) -> Observation:
        """Asks the platform now; blocks meanwhile."""


@dataclass(kw_only=True)
class Latest:
    """The platform is asked at most once in INTERVAL_S, however many pages are open, and not at all
    while none is."""

    observer: Observes
    when_silent: str
    now_s: Callable[[], float] = time.monotonic
    _asking: asyncio.Task[Observation] | None = None
    _seen: Observation | None = None
    _seen_s: float = 0.0

    async def observation(self) -> Observation:
        if self._asking is None:
            if self._seen is not None and self.now_s() - self._seen_s < INTERVAL_S:
                return self._seen
            self._asking = asyncio.create_task(self._ask())
        # A visitor who leaves ends no observation: others wait for it, and its thread goes on.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Observation:
        try:
            # It is cancelled only when the command ends, which waits for no answer.
            seen = await anyio.to_thread.run_sync(self.observer.observe, abandon_on_cancel=True)
            self._seen, self._seen_s = seen, self.now_s()
            return seen
        finally:
            self._asking = None

    async def page(self, wanted: str) -> Page:
        """The front page, with the rows whose names contain `wanted`."""
        return front_page(await self.observation(), self.when_silent, wanted)


async def events(latest: Latest, wanted: str) -> AsyncIterator[str]:
    """Server-sent events, each with the parts of the page that changed. The first has the digests
    of all parts: the browser's page is older than this stream."""
    shown: Page | None = None
    while True:
        page = await latest.page(wanted)
        message = _update(shown, page)
        # A comment shows that both ends still live.
        yield f"data: {json.dumps(message)}\n\n" if message else ": no change\n\n"
        shown = page
        await anyio.sleep(INTERVAL_S)


def _update(shown: Page | None, page: Page) -> dict[str, object]:
    parts = [
        {
            "id": change.id,
            "digest": digest(change.row or change.section),
            "html": rendering.fragment(change),
        }
        for change in changes(shown, page)
    ]
    if shown is None or shown.headline != page.headline:
        parts.append(
            {
                "id": "headline",
                "digest": digest(page.headline),
                "html": rendering.headline(page),
            }
        )
    return {"parts": parts, "state": page.headline.state.word} if parts else {}
