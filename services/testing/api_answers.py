"""What answers to the requests of api_requests.py must be, whoever gives them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

import jsonschema
from api_requests import (
    DOCUMENT_SCHEMA,
    EVENTS,
    RIGHT,
    TOOL,
    TOOL_SCHEMA,
    WRONG,
    Api,
    RightRequest,
    body_for,
)
from sdk_clients import Answered, Clients, clients

AT_ONCE = 8


class Ask(Protocol):
    """`ask` or `stream` of sdk_clients.Clients."""

    __name__: str

    async def __call__(self, api: Api, body: Mapping[str, Any]) -> Answered: ...


OPENINGS = {
    "responses": ["response.created", "response.in_progress", "response.output_item.added"],
    "messages": ["message_start", "content_block_start"],
}
CLOSINGS = {"responses": ["response.completed"], "messages": ["message_delta", "message_stop"]}


async def check_right_requests(url: str, model: str) -> int:
    """Makes all right requests, whole and streamed. Returns how many; fails if one of their answers
    is not what it must be."""
    async with clients(url) as sdks:
        seen: dict[Api, set[str]] = {api: set() for api in EVENTS}
        streamed = [request for request in RIGHT if request.api in EVENTS]
        checks = [
            *(_checked(model, request, sdks.ask, set()) for request in RIGHT),
            *(_checked(model, each, sdks.stream, seen[each.api]) for each in streamed),
        ]
        made = await _none_fails(checks)
        assert seen == {api: set(events) for api, events in EVENTS.items()}
        return made


async def check_wrong_requests(url: str, model: str) -> int:
    """Makes all wrong requests, and compares the statuses. Returns how many."""

    async def checked(sdks: Clients, number: int) -> str | None:
        request = WRONG[number]
        try:
            refused = await sdks.refused(model, request)
            assert refused.status == request.status, refused.body
        except Exception as error:
            return f"{request.api}, {request.mistake}: {error!r}"
        return None

    async with clients(url) as sdks:
        return await _none_fails([checked(sdks, number) for number in range(len(WRONG))])


def check(request: RightRequest, answered: Answered) -> None:
    assert answered.tokens > 0
    assert request.ends in ("", answered.ends), answered
    if request.expected == "tool":
        ((name, arguments),) = answered.calls
        assert name == TOOL
        jsonschema.validate(arguments, TOOL_SCHEMA)
    elif request.expected == "document":
        jsonschema.validate(json.loads(answered.text), DOCUMENT_SCHEMA)
    elif request.expected == "text":
        assert answered.text, answered
        assert not answered.calls
    elif request.expected == "text or tool":
        assert answered.text or answered.calls
    if answered.events:
        _check_order(request.api, answered.events)


def _check_order(api: Api, events: list[str]) -> None:
    opening, closing = OPENINGS.get(api, []), CLOSINGS.get(api, [])
    assert events[: len(opening)] == opening
    assert events[len(events) - len(closing) :] == closing


async def _checked(model: str, request: RightRequest, ask: Ask, seen: set[str]) -> str | None:
    """What is wrong with the answer; `seen` gets the kinds of its events."""
    body = body_for(model, request)
    assert isinstance(body, dict)
    try:
        answered = await ask(request.api, body)
        check(request, answered)
        seen.update(answered.events)
    except Exception as error:
        return f"{request.api}, {request.feature}, by {ask.__name__}: {error!r}"
    return None


async def _none_fails(checks: Sequence[Awaitable[str | None]]) -> int:
    """A few at a time, as an engine's batch has room for; all failures are told at once."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def in_turn(check: Awaitable[str | None]) -> str | None:
        async with turn:
            return await check

    failures = [each for each in await asyncio.gather(*map(in_turn, checks)) if each]
    assert not failures, f"{len(failures)} of {len(checks)}:\n" + "\n".join(failures)
    return len(checks)
