"""Chat Completions, Responses and Messages through the gateway, by the official SDKs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from api_answers import check, check_right_requests, check_wrong_requests
from api_requests import PATHS, RIGHT, Api, WrongRequest, body_for
from control_plane.routing import GRPC, Endpoint, Routing
from sdk_clients import Clients, Refused, clients
from support.fake_replica import FakeReplica
from support.gateway import Gateway, route
from support.simulated_engine import simulated_engine

pytestmark = pytest.mark.binaries

GENERATING: tuple[Api, ...] = ("chat", "responses", "messages")
UNBOUNDED = Routing(key="prefix", bound_percent=10_000)  # no replica is passed over
MIB = "x" * 1024 * 1024
LARGE = MIB * 9


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[tuple[Endpoint, ...]]:
    async with contextlib.AsyncExitStack() as stack:
        made = [simulated_engine(tmp_path / name, "tiny") for name in ("one", "other")]
        yield tuple([await stack.enter_async_context(engine) for engine in made])


@pytest.fixture
async def sdks(gateway: Gateway) -> AsyncIterator[Clients]:
    async with clients(gateway.url) as made:
        yield made


def small(api: Api, **fields: Any) -> dict[str, Any]:
    """A short right request."""
    request = next(request for request in RIGHT if request.api == api)
    body = body_for("tiny", request)
    assert isinstance(body, dict)
    return {**body, **fields}


def kinds(refusals: dict[Api, Refused]) -> dict[Api, tuple[int, str | None]]:
    """Statuses, and the codes of OpenAI's errors or the types of Anthropic's."""
    return {
        api: (each.status, each.body["error"]["type"] if api == "messages" else each.body["code"])
        for api, each in refusals.items()
    }


async def refusals(sdks: Clients, **fields: Any) -> dict[Api, Refused]:
    return {api: await sdks.refusal(api, small(api, **fields)) for api in GENERATING}


async def test_the_sdks_types_read_all_that_comes_through_the_gateway(
    gateway: Gateway, engines: tuple[Endpoint, ...]
) -> None:
    await gateway.apply(route("tiny", routing=UNBOUNDED), model_tiny_1_openai=engines)
    assert await check_right_requests(gateway.url, "tiny") >= 40
    assert await check_wrong_requests(gateway.url, "tiny") >= 15


async def test_many_agents_at_once_have_all_their_turns(
    gateway: Gateway, engines: tuple[Endpoint, ...], sdks: Clients
) -> None:
    await gateway.apply(
        route("tiny", max_concurrent_requests_per_replica=1000), model_tiny_1_openai=engines
    )
    streamed = [request for request in RIGHT if request.api != "count_tokens"]

    async def turns(number: int) -> int:
        for turn in range(4):
            request = streamed[(number + turn) % len(streamed)]
            body = body_for("tiny", request)
            assert isinstance(body, dict)
            check(request, await sdks.stream(request.api, body))
        return 4

    assert sum(await asyncio.gather(*map(turns, range(50)))) == 200


async def test_a_model_that_does_not_exist_is_told_in_each_apis_form(
    gateway: Gateway, sdks: Clients
) -> None:
    await gateway.apply(route("tiny"))
    refused = await refusals(sdks, model="other")
    assert kinds(refused) == {
        "chat": (404, "model_not_found"),
        "responses": (404, "model_not_found"),
        "messages": (404, "not_found_error"),
    }
    assert "served are: tiny" in refused["messages"].body["error"]["message"]
    count = WrongRequest(api="count_tokens", mistake="other model", body={"model": "other"})
    assert (await sdks.refused("tiny", count)).status == 404


async def test_a_request_without_a_model_is_refused_in_each_apis_form(
    gateway: Gateway, sdks: Clients
) -> None:
    await gateway.apply(route("tiny"))
    assert kinds(await refusals(sdks, model=None)) == {
        "chat": (400, None),
        "responses": (400, None),
        "messages": (400, "invalid_request_error"),
    }


async def test_no_healthy_replica_is_told_in_each_apis_form(
    gateway: Gateway, sdks: Clients
) -> None:
    await gateway.apply(route("tiny"))
    refused = await refusals(sdks)
    assert kinds(refused) == {
        "chat": (503, "no_healthy_replica"),
        "responses": (503, "no_healthy_replica"),
        "messages": (529, "overloaded_error"),
    }
    assert {each.headers["retry-after"] for each in refused.values()} == {"5"}


async def test_a_replica_that_is_lost_is_told_in_each_apis_form(
    gateway: Gateway, sdks: Clients, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    lost: dict[Api, Refused] = {}
    for api in GENERATING:
        asked = asyncio.create_task(sdks.refusal(api, small(api, held=True)))
        while not asked.done():
            blue.cut()
            await asyncio.sleep(0.01)
        lost[api] = await asked
    assert kinds(lost) == {
        "chat": (503, "replica_lost"),
        "responses": (503, "replica_lost"),
        "messages": (500, "api_error"),
    }


async def test_a_body_over_the_limit_is_told_in_each_apis_form(
    gateway: Gateway, sdks: Clients, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    assert kinds(await refusals(sdks, padding=LARGE)) == {
        "chat": (413, "request_too_large"),
        "responses": (413, "request_too_large"),
        "messages": (413, "request_too_large"),
    }
    assert blue.requests == []


async def test_requests_over_the_limit_are_told_in_each_apis_form(
    gateway: Gateway, sdks: Clients, blue: FakeReplica
) -> None:
    limited = route("tiny", max_concurrent_requests_per_replica=1)
    await gateway.apply(limited, model_tiny_1_openai=(blue.openai(),))
    held = sdks.openai.post("/chat/completions", body=small("chat", held=True), cast_to=object)
    first = asyncio.create_task(held)
    while not blue.requests:
        await asyncio.sleep(0.01)
    refused = await refusals(sdks)
    blue.release.set()
    await first
    assert kinds(refused) == {
        "chat": (429, "overloaded"),
        "responses": (429, "overloaded"),
        "messages": (429, "rate_limit_error"),
    }
    assert {each.headers["retry-after"] for each in refused.values()} == {"5"}


async def test_a_model_of_another_protocol_is_told_in_each_apis_form(
    gateway: Gateway, sdks: Clients
) -> None:
    await gateway.apply(route("tiny", protocols=(GRPC,)))
    assert kinds(await refusals(sdks)) == {
        "chat": (404, "protocol_not_served"),
        "responses": (404, "protocol_not_served"),
        "messages": (404, "not_found_error"),
    }


async def test_responses_that_are_not_stored_are_not_found(gateway: Gateway, sdks: Clients) -> None:
    await gateway.apply(route("tiny"))
    responses = sdks.openai.responses
    for missing in (responses.retrieve, responses.cancel, responses.delete):
        with pytest.raises(Exception, match="send the whole conversation") as caught:
            await missing("resp_1")
        assert getattr(caught.value, "status_code", None) == 404
    with pytest.raises(Exception, match="send the whole conversation") as caught:
        await sdks.openai.post("/responses/resp_1/cancel", body={"padding": MIB}, cast_to=object)
    assert getattr(caught.value, "status_code", None) == 404


SESSIONS: dict[Api, dict[str, Any]] = {
    "chat": {"prompt_cache_key": "session 1"},
    "responses": {"prompt_cache_key": "session 1"},
    "messages": {"metadata": {"user_id": "session 1"}},
}


async def test_a_session_stays_on_one_replica_over_all_apis(
    gateway: Gateway, sdks: Clients, blue: FakeReplica, green: FakeReplica
) -> None:
    keyed = route("tiny", routing=UNBOUNDED)
    both = tuple(
        Endpoint(replica.address, replica.http_port, True, replica.marker)
        for replica in (blue, green)
    )
    await gateway.apply(keyed, model_tiny_1_openai=both)
    used = set()
    for api in GENERATING:
        for turn in range(5):
            said = {"input" if api == "responses" else "messages": [{"role": "user", "n": turn}]}
            answer: Any = await sdks.openai.post(
                PATHS[api].removeprefix("/v1"),
                body={"model": "tiny", **said, **SESSIONS[api]},
                cast_to=object,
            )
            used.add(answer["marker"])
    assert len(used) == 1
    for number in range(20):
        body = {"model": "tiny", "input": "x", "prompt_cache_key": f"session {number}"}
        await sdks.openai.post("/responses", body=body, cast_to=object)
    assert blue.requests
    assert green.requests


async def test_headers_with_underscores_are_dropped_and_refuse_nobody(
    gateway: Gateway, sdks: Clients, blue: FakeReplica
) -> None:
    await gateway.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
    await sdks.openai.post(
        "/responses",
        body=small("responses"),
        cast_to=object,
        options={"headers": {"session_id": "1"}},
    )
    assert len(blue.requests) == 1
