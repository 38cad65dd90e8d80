"""Failures while weights are computed: they end nothing, and tell no secret."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest
from control_plane.routing import RoutingTable
from control_plane.weights import computing
from control_plane.weights.computing import Computing
from control_plane.weights.lock import Lock
from control_plane.weights.signals import Signal
from multidict import CIMultiDict, CIMultiDictProxy
from support.waiting import eventually
from yarl import URL

CANARY = "canary-5d1f"


class RefusingLock(Lock):
    """Of a Consul without a leader; counts the tries."""

    def __init__(self, error: Exception) -> None:
        self.tries = 0
        self._error = error

    async def held(self) -> bool:
        self.tries += 1
        raise self._error

    async def release(self) -> None:
        raise self._error


def response_error() -> aiohttp.ClientResponseError:
    headers = CIMultiDictProxy(CIMultiDict({"X-Consul-Token": CANARY}))
    url = URL("http://10.0.0.1:8500/v1/session/create")
    request = aiohttp.RequestInfo(url, "PUT", headers, url)
    return aiohttp.ClientResponseError(request, (), status=500, message="No cluster leader")


@pytest.mark.parametrize("error", [response_error(), KeyError("ID")])
async def test_a_consul_that_refuses_is_asked_again_and_its_token_is_not_logged(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(computing, "INTERVAL_S", 0.001)
    lock = RefusingLock(error)

    async def reported() -> dict[str, Signal]:
        return {}

    running = asyncio.create_task(
        Computing(
            lock, reported=reported, table=lambda: RoutingTable((), {}), served=lambda: {}
        ).run()
    )
    await eventually(lambda: lock.tries >= 3 or running.done(), "it is asked three times")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError, type(error)):
        await running

    assert lock.tries >= 3
    assert CANARY not in caplog.text
    assert caplog.text.count("weights:") == 1
