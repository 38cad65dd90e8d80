# mypy: disable-error-code="import-untyped"
"""Changes of the routing table while requests run must not affect the requests."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from hang import HANG_S
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from support.load import load
from support.waiting import eventually

pytestmark = pytest.mark.binaries

SWAPS = 20


@pytest.fixture
def _removed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters are removed soon after their routes."""
    monkeypatch.setattr("control_plane.protocol.stream.ROUTED_REQUEST_S", 0.1)


@pytest.fixture
def _removed_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters outlive requests that stop on their way to them, as on a slow machine."""
    monkeypatch.setattr("control_plane.protocol.stream.ROUTED_REQUEST_S", HANG_S)


@pytest.mark.usefixtures("_removed_late")
async def test_swapping_a_models_backend_under_load_fails_no_request(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica
) -> None:
    replicas = (blue, green)
    await gateway.apply(route("tiny", "model-0"), model_0_openai=(blue.openai(),))

    async with load(gateway.url, "tiny") as outcomes:
        for number in range(1, SWAPS + 1):
            service, replica = f"model-{number}", replicas[number % 2]
            before = outcomes[replica.marker]
            await gateway.apply_table(
                (route("tiny", service),), {f"{service}-openai": (replica.openai(),)}
            )
            arrived = functools.partial(_more_than, before, outcomes, replica.marker)
            await eventually(arrived, "traffic reaches the new backend")

    assert set(outcomes) == {"blue", "green"}
    assert sum(outcomes.values()) > SWAPS


async def test_replicas_that_come_and_go_under_load_fail_no_request(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica
) -> None:
    both, one = (blue.openai(), green.openai()), (blue.openai(),)
    await gateway.apply(route("tiny"), model_tiny_1_openai=both)

    async with load(gateway.url, "tiny") as outcomes:
        for number in range(100):
            await gateway.apply(route("tiny"), model_tiny_1_openai=one if number % 2 else both)

    assert set(outcomes) == {"blue", "green"}


async def test_a_changed_cluster_is_warm_once_its_endpoints_are_there_again(
    gateway: Gateway, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))

    changed = route("tiny", max_concurrent_requests_per_replica=7)
    await gateway.apply(changed, model_tiny_1_openai=(blue.openai(),))

    # Otherwise Envoy gives up waiting for them after 15 s, and takes the cluster without.
    assert await gateway.stat("cluster.model-tiny-1-openai.init_fetch_timeout") == 0


async def test_an_endpoint_that_left_gets_no_new_request(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(), green.openai()))
    await gateway.apply(route("tiny"), model_tiny_1_openai=(green.openai(),))
    assert await gateway.stat("cluster.model-tiny-1-openai.membership_total") == 1

    async with load(gateway.url, "tiny") as outcomes:
        await eventually(lambda: outcomes["green"] > 100, "some requests are done")

    assert set(outcomes) == {"green"}
    assert blue.requests == []


@pytest.mark.usefixtures("_removed_soon")
@pytest.mark.parametrize("departure", ["endpoint", "cluster", "model"])
async def test_streams_in_flight_survive_that_their_replica_leaves_the_table(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica, departure: str
) -> None:
    """SSE and gRPC, when the endpoint, its cluster, or the whole model goes."""
    await gateway.apply(
        route("tiny", "model-old"),
        model_old_openai=(blue.openai(),),
        model_old_grpc=(blue.grpc(),),
    )
    questions: asyncio.Queue[str | None] = asyncio.Queue()

    async def requests() -> AsyncIterator[dict[str, Any]]:
        while (name := await questions.get()) is not None:
            yield {"model_name": "tiny", "inputs": [], "request_id": name}

    async with (
        aiohttp.ClientSession() as session,
        triton.InferenceServerClient(gateway.target) as client,
    ):
        url = f"{gateway.url}/v1/completions"
        sse = await session.post(url, json={"model": "tiny", "stream": True})
        assert await sse.content.readuntil(b"\n\n") == b"data: blue\n\n"
        answers = aiter(client.stream_infer(requests()))
        await questions.put("before")
        assert (await anext(answers))[0].get_response().id == "before"

        if departure == "endpoint":
            await gateway.apply(route("tiny", "model-old"))
        elif departure == "cluster":
            await gateway.apply(route("tiny", "model-new"), model_new_openai=(green.openai(),))
        else:
            await gateway.apply()
        if departure != "endpoint":
            await eventually(lambda: _gone(gateway, "model-old-openai"), "the cluster is removed")
            await eventually(lambda: _gone(gateway, "model-old-grpc"), "the other one, too")
        await _every_worker_has_heard(gateway)

        await questions.put("after")
        result, error = await asyncio.wait_for(anext(answers), HANG_S)
        assert (error, result.get_response().id) == (None, "after")
        await questions.put(None)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(answers), HANG_S)
        blue.release.set()
        assert await asyncio.wait_for(sse.read(), HANG_S) == b"data: [DONE]\n\n"


def _more_than(before: int, outcomes: Counter[str], marker: str) -> bool:
    return outcomes[marker] > before


async def _every_worker_has_heard(gateway: Gateway) -> None:
    """Envoy's workers take up a change before what clients ask after it; each connection is one's
    of two."""
    for _ in range(30):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{gateway.url}/healthz") as response,
        ):
            assert response.status == 200


async def _gone(gateway: Gateway, cluster: str) -> bool:
    return f"{cluster}::" not in await gateway.admin("/clusters")
