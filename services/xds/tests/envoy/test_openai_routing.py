"""OpenAI requests through a real Envoy."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp
import pytest
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from support.waiting import eventually

pytestmark = pytest.mark.binaries


async def chat(
    client: aiohttp.ClientSession, gateway: Gateway, body: Any, path: str = "/v1/chat/completions"
) -> tuple[int, dict[str, Any]]:
    async with client.post(gateway.url + path, json=body) as response:
        return response.status, await response.json(content_type=None)


async def test_the_model_in_the_body_chooses_the_backend(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica, green: FakeReplica
) -> None:
    await gateway.apply(
        route("tiny"),
        route("big"),
        model_tiny_1_openai=(blue.openai(),),
        model_big_1_openai=(green.openai(),),
    )

    assert await chat(client, gateway, {"model": "tiny"}) == (
        200,
        {"marker": "blue", "model": "tiny"},
    )
    assert await chat(client, gateway, {"model": "big"}, "/v1/completions") == (
        200,
        {"marker": "green", "model": "big"},
    )
    assert blue.requests[0]["path"] == "/v1/chat/completions"


async def test_the_model_is_found_after_a_long_prompt_that_names_another_one(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica, green: FakeReplica
) -> None:
    await gateway.apply(
        route("tiny"),
        route("big"),
        model_tiny_1_openai=(blue.openai(),),
        model_big_1_openai=(green.openai(),),
    )
    prompt = '"model": "big" ' * 50_000
    messages = [{"role": "user", "content": prompt, "model": "big"}]

    status, answer = await chat(client, gateway, {"messages": messages, "model": "tiny"})

    assert (status, answer["marker"]) == (200, "blue")
    assert blue.requests[0]["bytes"] > 750_000


async def test_an_alias_goes_where_the_model_goes(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny", aliases=("small",)), model_tiny_1_openai=(blue.openai(),))

    assert await chat(client, gateway, {"model": "small"}) == (
        200,
        {"marker": "blue", "model": "small"},
    )


async def test_an_unknown_model_is_404_in_openais_form_and_names_what_exists(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny", aliases=("small",)), model_tiny_1_openai=(blue.openai(),))

    status, answer = await chat(client, gateway, {"model": "huge"})

    assert status == 404
    assert answer["error"]["code"] == "model_not_found"
    assert "small, tiny" in answer["error"]["message"]
    assert blue.requests == []


async def test_only_a_stream_has_a_limit_for_its_silence(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(
        route("tiny", stream_idle_timeout_s=1), model_tiny_1_openai=(blue.openai(),)
    )
    url = f"{gateway.url}/v1/completions"
    headers = {"x-slipway-stream": "true"}  # a client's own is not believed
    body = {"model": "tiny", "stream": False, "held": True}
    whole = asyncio.create_task(client.post(url, json=body, headers=headers))
    await eventually(lambda: bool(blue.requests), "the replica has the request")

    # On a busy machine its silence may begin before its first token.
    with contextlib.suppress(aiohttp.ClientPayloadError):
        async with client.post(url, json={"model": "tiny", "stream": True}) as stream:
            assert b"[DONE]" not in await stream.read()
    timeouts = await gateway.stat("cluster.model-tiny-1-openai.upstream_rq_per_try_idle_timeout")
    assert timeouts in (1, 2)  # before its first token it is tried twice
    assert not whole.done()
    blue.release.set()
    async with await whole as response:
        assert (response.status, (await response.json())["marker"]) == (200, "blue")


async def test_the_value_of_stream_is_left_to_the_replica(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    blue.release.set()

    for stream in (None, 1, "true", {"a": [1]}, []):
        body = {"stream": stream, "model": "tiny"}
        async with client.post(f"{gateway.url}/v1/completions", json=body) as response:
            assert response.status == 200, stream


async def test_a_body_without_a_model_is_400(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    await gateway.apply(route("tiny"))

    for body in ({}, {"model": 7}, {"model": ""}, [], {"model": None}):
        status, answer = await chat(client, gateway, body)
        assert status in (400, 404), body
        assert answer["error"]["param"] == "model", body


async def test_a_clients_own_model_header_is_ignored(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica, green: FakeReplica
) -> None:
    await gateway.apply(
        route("tiny"),
        route("big"),
        model_tiny_1_openai=(blue.openai(),),
        model_big_1_openai=(green.openai(),),
    )
    headers = {"x-slipway-model": "big"}

    url = f"{gateway.url}/v1/completions"
    async with client.post(url, json={"model": "tiny"}, headers=headers) as response:
        assert (await response.json())["marker"] == "blue"
    async with client.post(url, data=b"x", headers=headers) as response:
        assert response.status == 400


async def test_models_and_aliases_are_listed_at_the_edge(
    gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    await gateway.apply(route("tiny", aliases=("small",)), route("org/big"))

    async with client.get(f"{gateway.url}/v1/models") as response:
        listed = await response.json()
    async with client.get(f"{gateway.url}/v1/models/org/big") as response:
        one = await response.json()
    async with client.get(f"{gateway.url}/v1/models/none") as response:
        assert response.status == 404

    assert [entry["id"] for entry in listed["data"]] == ["org/big", "small", "tiny"]
    assert one["id"] == "org/big"


async def test_no_healthy_replica_is_503_with_retry_after(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(healthy=False),))

    body = {"model": "tiny"}
    async with client.post(f"{gateway.url}/v1/completions", json=body) as response:
        answer = await response.json()

    assert response.status == 503
    assert response.headers["retry-after"] == "5"
    assert response.content_type == "application/json"
    assert answer["error"]["code"] == "no_healthy_replica"
    assert blue.requests == []


async def test_requests_over_the_limit_of_the_healthy_replicas_are_429(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica, green: FakeReplica
) -> None:
    limited = route("tiny", max_concurrent_requests_per_replica=2)
    await gateway.apply(limited, model_tiny_1_openai=(blue.openai(), green.openai()))
    url = f"{gateway.url}/v1/completions"
    held = [await client.post(url, json={"model": "tiny", "stream": True}) for _ in range(4)]

    async with client.post(url, json={"model": "tiny"}) as response:
        answer = await response.json()

    assert [stream.status for stream in held] == [200] * 4
    assert (response.status, answer["error"]["code"]) == (429, "overloaded")
    assert response.headers["retry-after"] == "5"

    await gateway.apply(limited, model_tiny_1_openai=(blue.openai(),))
    assert await gateway.stat("cluster.model-tiny-1-openai.circuit_breakers.default.rq_open") == 1
    for replica in (blue, green):
        replica.release.set()
    await asyncio.gather(*(stream.read() for stream in held))
    await eventually(lambda: blue.in_flight == 0, "the streams end")


async def test_weights_split_the_traffic_and_a_backend_of_weight_zero_gets_none(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica, green: FakeReplica
) -> None:
    split = route("tiny", "model-a", "model-b", "model-c", weights={"model-b": 50, "model-c": 0})
    await gateway.apply(
        split,
        model_a_openai=(blue.openai(),),
        model_b_openai=(green.openai(),),
    )

    answers = [await chat(client, gateway, {"model": "tiny"}) for _ in range(200)]

    assert {status for status, _ in answers} == {200}
    assert 90 < sum(answer["marker"] == "blue" for _, answer in answers) < 170


async def test_a_token_reaches_the_client_before_the_stream_ends(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))

    body = {"model": "tiny", "stream": True}
    async with client.post(f"{gateway.url}/v1/completions", json=body) as response:
        first = await response.content.readuntil(b"\n\n")
        assert blue.in_flight == 1
        blue.release.set()
        rest = await response.read()

    assert first == b"data: blue\n\n"
    assert rest == b"data: [DONE]\n\n"


async def test_a_dead_replica_costs_no_request_while_another_lives(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica, green: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(), green.openai()))
    await green.__aexit__()

    answers = [await chat(client, gateway, {"model": "tiny"}) for _ in range(50)]

    assert {status for status, _ in answers} == {200}
    assert {answer["marker"] for _, answer in answers} == {"blue"}


async def test_a_replicas_own_error_is_not_retried(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    blue.status = 503

    status, _ = await chat(client, gateway, {"model": "tiny"})

    assert (status, len(blue.requests)) == (503, 1)


async def test_a_body_over_the_limit_is_413_and_reaches_no_replica(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    body = {"model": "tiny", "prompt": "x" * 9 * 1024 * 1024}

    async with client.post(f"{gateway.url}/v1/completions", json=body) as response:
        assert response.status == 413
    assert blue.requests == []


async def test_other_paths_lead_nowhere(
    gateway: Gateway, client: aiohttp.ClientSession, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))

    for path in ("/", "/metrics", "/v2/repository/index", "/v1/../metrics"):
        async with client.post(gateway.url + path, json={"model": "tiny"}) as response:
            assert response.status == 404, path
    assert blue.requests == []
