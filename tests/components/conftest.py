from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def event_loop_for_pulumi() -> Iterator[None]:
    """The SDK asks for the thread's current loop; an `asyncio.run` of an earlier test unset it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
