# mypy: disable-error-code="import-untyped"
"""A replica whose engine stands still is out for new requests; others answer those it had."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from support.load import load
from support.waiting import eventually

pytestmark = pytest.mark.binaries

OPENAI = "model-tiny-1-openai"


async def serve(gateway: Gateway, *replicas: FakeReplica) -> None:
    await gateway.apply(
        route("tiny"),
        model_tiny_1_openai=tuple(each.watched(each.http_port) for each in replicas),
        model_tiny_1_grpc=tuple(each.watched(each.grpc_port) for each in replicas),
    )
    await has(gateway, len(replicas))


async def has(gateway: Gateway, healthy: int) -> None:
    async def used() -> bool:
        names = (f"cluster.model-tiny-1-{p}.membership_healthy" for p in ("openai", "grpc"))
        return [await gateway.stat(name) for name in names] == [healthy, healthy]

    await eventually(used, f"{healthy} replicas are in use")


async def ask(client: aiohttp.ClientSession, gateway: Gateway, **body: object) -> tuple[int, str]:
    async with client.post(
        f"{gateway.url}/v1/completions", json={"model": "tiny", **body}
    ) as response:
        return response.status, await response.text()


async def begun_on(replica: FakeReplica, other: FakeReplica, count: int) -> None:
    await eventually(lambda: len(replica.requests + other.requests) >= count, "all have begun")


async def test_one_that_stands_still_gets_no_new_requests_and_returns_when_it_moves(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, blue, green)
    stream = await client.post(
        f"{gateway.url}/v1/completions", json={"model": "tiny", "stream": True}
    )
    hung, other = (blue, green) if blue.in_flight else (green, blue)
    hung.moving = False
    await has(gateway, 1)

    seen = len(hung.requests)
    async with triton.InferenceServerClient(gateway.target) as stub:
        answers = [await stub.infer("tiny", inputs=[]) for _ in range(20)]
    whole = [await ask(client, gateway) for _ in range(20)]
    assert {answer.get_response().model_version for answer in answers} == {other.marker}
    assert [status for status, _ in whole] == [200] * 20
    assert len(hung.requests) == seen

    hung.moving = True
    async with load(gateway.url, "tiny") as outcomes:
        await eventually(lambda: outcomes[hung.marker] > 0, "it is used again")
    hung.release.set()
    assert (await stream.read()).endswith(b"data: [DONE]\n\n")
    assert {*outcomes} <= {"blue", "green"}


@pytest.mark.parametrize("stream", [False, True])
async def test_requests_without_a_header_are_answered_elsewhere_when_it_ends(
    gateway: Gateway,
    blue: FakeReplica,
    green: FakeReplica,
    client: aiohttp.ClientSession,
    stream: bool,
) -> None:
    await serve(gateway, blue, green)
    asked = [asyncio.create_task(ask(client, gateway, held=True, stream=stream)) for _ in range(20)]
    await begun_on(blue, green, 20)
    assert blue.requests
    green.release.set()
    blue.moving = False
    await has(gateway, 1)
    blue.cut()
    answers = await asyncio.gather(*asked)
    assert [status for status, _ in answers] == [200] * 20
    assert all("green" in text for _, text in answers)


async def test_a_stream_without_a_token_goes_elsewhere_though_nobody_finds_its_replica_hung(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica, client: aiohttp.ClientSession
) -> None:
    """Who watches the engine may stand still, too, or be wrong."""
    await gateway.apply(
        route("tiny", stream_idle_timeout_s=4),
        model_tiny_1_openai=(blue.watched(blue.http_port), green.watched(green.http_port)),
    )
    asked = [asyncio.create_task(ask(client, gateway, held=True, stream=True)) for _ in range(8)]
    await begun_on(blue, green, 8)
    before = len(blue.requests)
    assert before
    green.release.set()

    answers = await asyncio.gather(*asked)

    assert all(status == 200 and "green" in text for status, text in answers)
    assert len(blue.requests) == before


async def test_a_stream_that_has_begun_breaks_off_and_is_not_begun_again(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, blue)
    response = await client.post(
        f"{gateway.url}/v1/completions", json={"model": "tiny", "stream": True}
    )
    assert await response.content.readany() == b"data: blue\n\n"
    await serve(gateway, blue, green)
    blue.cut()
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()
    assert green.requests == []


async def test_with_every_replica_standing_still_a_request_is_refused_with_the_reason(
    gateway: Gateway, blue: FakeReplica, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, blue)
    blue.moving = False
    await has(gateway, 0)
    status, text = await ask(client, gateway)
    assert (status, "no_healthy_replica" in text) == (503, True)


async def test_one_without_a_liveness_page_is_not_asked_and_stays_in_use(
    gateway: Gateway, blue: FakeReplica, green: FakeReplica, client: aiohttp.ClientSession
) -> None:
    """As those that were started by an earlier version."""
    await gateway.apply(
        route("tiny"),
        model_tiny_1_openai=(blue.openai(), green.watched(green.http_port)),
    )
    blue.moving = green.moving = False

    async def one() -> bool:
        return await gateway.stat(f"cluster.{OPENAI}.membership_healthy") == 1

    await eventually(one, "the other is out")
    answers = [await ask(client, gateway) for _ in range(20)]
    assert all(status == 200 and "blue" in text for status, text in answers)
