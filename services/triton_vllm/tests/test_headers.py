"""Headers come with the first token: what the middleware of vLLM's server makes of answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from engine_headers import HeadersWithTheFirstToken, Message, Send

STREAM = [(b"content-type", b"text/event-stream; charset=utf-8")]
START: Message = {"type": "http.response.start", "status": 200, "headers": STREAM}
TOKEN = b'data: {"choices": [{"text": " a"}]}\n\n'


def body(content: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def never() -> Message:
    raise AssertionError("nothing is received")


def sent_of(*messages: Message, kind: str = "http") -> list[Message]:
    """What a client is sent of an application's messages."""
    sent: list[Message] = []

    async def application(_scope: Message, _receive: object, send: Send) -> None:
        for message in messages:
            await send(message)

    async def keep(message: Message) -> None:
        sent.append(message)

    asyncio.run(HeadersWithTheFirstToken(application)({"type": kind}, never, keep))
    return sent


def error(**more: object) -> dict[str, Any]:
    return {"error": {"message": "out of blocks", "type": "InternalServerError", **more}}


def event(content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def test_headers_wait_for_the_first_token() -> None:
    assert sent_of(START) == []
    assert sent_of(START, body(TOKEN)) == [START, body(TOKEN)]


def test_a_stream_is_passed_on_as_it_is() -> None:
    messages = [START, body(TOKEN), body(TOKEN), body(b"data: [DONE]\n\n"), body(b"", more=False)]
    assert sent_of(*messages) == messages


@pytest.mark.parametrize(
    ("code", "status"), [(400, 400), (503, 503), (None, 500), (42, 500), ("E1", 500)]
)
def test_an_error_before_the_first_token_is_the_status(code: object, status: int) -> None:
    start, answer = sent_of(
        START,
        body(event(error(code=code))),
        body(b"data: [DONE]\n\n"),
        body(b"", more=False),
    )
    assert start["status"] == status
    headers = dict(start["headers"])
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(answer["body"])
    assert json.loads(answer["body"]) == error(code=code)
    assert not answer.get("more_body")


def test_an_error_after_the_first_token_stays_in_the_stream() -> None:
    messages = [START, body(TOKEN), body(event(error())), body(b"", more=False)]
    assert sent_of(*messages) == messages


@pytest.mark.parametrize(
    "first", [b"", b": ping\n\n", b"data: [DONE]\n\n", b"data: {broken\n\n", b'data: "error"\n\n']
)
def test_whatever_is_no_error_is_passed_on(first: bytes) -> None:
    assert sent_of(START, body(first)) == [START, body(first)]


CREATED = b'event: response.created\ndata: {"type": "response.created"}\n\n'
IN_PROGRESS = b'event: response.in_progress\ndata: {"type": "response.in_progress"}\n\n'
ADDED = b'event: response.output_item.added\ndata: {"type": "response.output_item.added"}\n\n'


def test_headers_of_a_response_wait_for_what_its_engine_causes() -> None:
    assert sent_of(START, body(CREATED), body(IN_PROGRESS)) == []
    messages = [START, body(CREATED), body(IN_PROGRESS), body(ADDED), body(b"", more=False)]
    assert sent_of(*messages) == messages


def test_a_response_that_ends_before_its_engine_begins_is_passed_on() -> None:
    messages = [START, body(CREATED, more=False)]
    assert sent_of(*messages) == messages


def test_events_that_come_together_wait_only_if_none_is_the_engines() -> None:
    assert sent_of(START, body(CREATED + IN_PROGRESS)) == []
    messages = [START, body(CREATED + IN_PROGRESS + ADDED)]
    assert sent_of(*messages) == messages
    start, answer = sent_of(START, body(CREATED + event(error(code=503)), more=False))
    assert start["status"] == 503
    assert json.loads(answer["body"]) == error(code=503)


def test_an_error_after_the_beginning_of_a_response_is_the_status() -> None:
    start, answer = sent_of(
        START, body(CREATED), body(IN_PROGRESS), body(event(error(code=503))), body(b"", more=False)
    )
    assert start["status"] == 503
    assert json.loads(answer["body"]) == error(code=503)


def test_an_error_that_is_the_first_event_of_a_message_is_the_status() -> None:
    failed = {"type": "error", "error": {"type": "internal_error", "message": "out of blocks"}}
    start, answer = sent_of(START, body(b"event: error\n" + event(failed)))
    assert start["status"] == 500
    assert json.loads(answer["body"]) == failed


def test_other_answers_are_passed_on_with_their_status() -> None:
    refused: Message = {**START, "status": 404, "headers": [(b"content-type", b"application/json")]}
    answer = body(event(error()), more=False)
    assert sent_of(refused, answer) == [refused, answer]


def test_what_is_no_request_is_none_of_its_business() -> None:
    started: Message = {"type": "lifespan.startup.complete"}
    assert sent_of(started, kind="lifespan") == [started]


def test_an_application_that_fails_before_its_first_token_has_sent_nothing() -> None:
    sent: list[Message] = []

    async def application(_scope: Message, _receive: object, send: Send) -> None:
        await send(START)
        raise OSError("the engine has gone")

    async def keep(message: Message) -> None:
        sent.append(message)

    with pytest.raises(OSError, match="has gone"):
        asyncio.run(HeadersWithTheFirstToken(application)({"type": "http"}, never, keep))
    assert sent == []
