from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from support.death import take_for_dead
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, nothing that lives is taken for dead."""
    take_for_dead(monkeypatch)


@pytest.fixture(name="gateway")
async def _gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with gateway(tmp_path) as started:
        yield started


@pytest.fixture
async def blue() -> AsyncIterator[FakeReplica]:
    async with FakeReplica("blue") as replica:
        yield replica


@pytest.fixture
async def green() -> AsyncIterator[FakeReplica]:
    async with FakeReplica("green") as replica:
        yield replica


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
