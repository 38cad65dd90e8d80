"""Weights through a real Consul: one control plane computes them, all of them serve them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from control_plane.routing import Endpoint, RoutingTable
from control_plane.sources import weights as weights_source
from control_plane.sources.reachability import Reachability
from control_plane.sources.weights import WeightsSource
from control_plane.weights.computing import Computing
from control_plane.weights.document import LOCK_KEY, Weights
from control_plane.weights.lock import Lock, RefusedError
from control_plane.weights.signals import Signal
from support.consul import Consul, consul
from support.gateway import route
from support.waiting import eventually

pytestmark = pytest.mark.binaries

ROUTE = route("tiny", "model-tiny-1")
REPLICAS = tuple(Endpoint("10.0.0.1", 8000 + n, True, f"model-tiny-1.replica[{n}]") for n in (0, 1))
TABLE = RoutingTable((ROUTE,), dict.fromkeys(ROUTE.clusters(), REPLICAS))
FIRST, SECOND = (replica.replica for replica in REPLICAS)
BUSY, IDLE = Signal(1.0, 1.0), Signal(0.0, 0.0)


@dataclass
class Plane:
    """The part of a control plane that has to do with weights."""

    computing: Computing
    source: WeightsSource
    lock: Lock
    signals: dict[str, Signal] = field(default_factory=dict)

    def serves(self, weights: Mapping[str, int]) -> bool:
        return self.source.served.get("tiny", {}) == weights


@contextlib.asynccontextmanager
async def plane(agent: Consul) -> AsyncIterator[Plane]:
    async with aiohttp.ClientSession(agent.url) as session:
        lock = Lock(session, LOCK_KEY, holder="a test")
        source = WeightsSource(session, Reachability(lambda: 0.0), lambda _: None)
        signals: dict[str, Signal] = {}

        async def reported() -> dict[str, Signal]:
            return signals

        computing = Computing(
            lock, reported=reported, table=lambda: TABLE, served=lambda: source.served
        )
        watching = asyncio.create_task(source.run())
        try:
            yield Plane(computing, source, lock, signals)
        finally:
            watching.cancel()


async def put(agent: Consul, key: str, text: str) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.put(f"{agent.url}/v1/kv/{key}", data=text.encode()) as response,
    ):
        response.raise_for_status()


async def get(agent: Consul, key: str) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{agent.url}/v1/kv/{key}") as response,
    ):
        return json.loads(base64.b64decode((await response.json())[0]["Value"]))


async def test_what_one_computes_all_serve_and_another_goes_on_when_it_leaves(
    tmp_path: Path,
) -> None:
    async with consul(tmp_path) as agent, plane(agent) as one, plane(agent) as other:
        one.signals.update({FIRST: BUSY, SECOND: IDLE})
        await one.computing.step()
        for each in (one, other):
            await eventually(lambda each=each: each.serves({FIRST: 90, SECOND: 100}), "served")

        await other.computing.step()
        assert await get(agent, "slipway/weights/tiny") == {
            "schema_version": 1,
            "model": "tiny",
            "replicas": {FIRST: 90, SECOND: 100},
        }

        await one.lock.release()
        other.signals.update({FIRST: BUSY, SECOND: IDLE})
        await other.computing.step()
        for each in (one, other):
            await eventually(lambda each=each: each.serves({FIRST: 80, SECOND: 100}), "served")


async def test_a_holder_that_hung_and_comes_back_writes_nothing(tmp_path: Path) -> None:
    async with consul(tmp_path) as agent, plane(agent) as hung, plane(agent) as other:
        await hung.computing.step()
        await _end_session(agent)
        await other.computing.step()
        await eventually(lambda: other.serves({FIRST: 100, SECOND: 100}), "served")

        document = Weights(model="tiny", replicas={FIRST: 30}).model_dump_json()
        with pytest.raises(RefusedError, match="session"):
            await hung.lock.write({"slipway/weights/tiny": document}, [])
        await other.lock.write({"slipway/weights/tiny": document}, [])


async def test_more_documents_than_a_transaction_takes_are_written_and_deleted(
    tmp_path: Path,
) -> None:
    async with consul(tmp_path) as agent, plane(agent) as one:
        assert await one.lock.held()
        documents = {
            f"slipway/weights/m{n}": Weights(model=f"m{n}", replicas={"a": 50}).model_dump_json()
            for n in range(150)
        }
        await one.lock.write(documents, [])
        await eventually(lambda: len(one.source.served) == 150, "all are served")

        await one.computing.step()

        await eventually(lambda: list(one.source.served) == ["tiny"], "models that are gone, too")


async def test_a_bad_document_keeps_the_last_weights_and_others_are_unaffected(
    tmp_path: Path,
) -> None:
    async with consul(tmp_path) as agent, plane(agent) as one:
        one.signals.update({FIRST: BUSY, SECOND: IDLE})
        await one.computing.step()
        await eventually(lambda: one.serves({FIRST: 90, SECOND: 100}), "served")

        await put(agent, "slipway/weights/tiny", "{garbage")
        await put(agent, "slipway/weights/stranger", "")
        good = Weights(model="good", replicas={"a": 70}).model_dump_json()
        await put(agent, "slipway/weights/good", good)

        await eventually(lambda: "good" in one.source.served, "the good one is served")
        assert one.serves({FIRST: 90, SECOND: 100})
        assert sorted(one.source.problems) == ["stranger", "tiny"]


async def test_weights_that_nobody_computes_any_more_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_source, "NOBODY_S", 0.01)
    async with consul(tmp_path) as agent, plane(agent) as one:
        one.signals.update({FIRST: BUSY, SECOND: IDLE})
        await one.computing.step()
        await eventually(lambda: one.serves({FIRST: 90, SECOND: 100}), "served")

        await one.lock.release()
        await eventually(lambda: one.source.served == {}, "all are equal")
        stale = Weights(model="tiny", replicas={FIRST: 30}).model_dump_json()
        await put(agent, "slipway/weights/tiny", stale)
        await put(agent, "slipway/weights/garbage", "")
        await eventually(lambda: "garbage" in one.source.problems, "both were read")
        assert one.source.served == {}

        await one.computing.step()
        await eventually(lambda: one.source.served != {}, "somebody computes again")


async def _end_session(agent: Consul) -> None:
    """As Consul does with one that was not renewed."""
    async with aiohttp.ClientSession(agent.url) as session:
        async with session.get("/v1/session/list") as response:
            sessions = await response.json()
        for each in sessions:
            async with session.put(f"/v1/session/destroy/{each['ID']}") as response:
                response.raise_for_status()
