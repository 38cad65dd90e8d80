"""Errors of the Messages API: what the middleware of vLLM's server makes of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from engine_message_errors import ErrorsOfMessages, Message, Send

OPENAIS = {"error": {"message": "no such model", "type": "NotFoundError", "code": 404}}
TURNED_AWAY = (b"x-slipway-replica-unreachable", b"true")


def sent_of(*messages: Message, path: str = "/v1/messages", kind: str = "http") -> list[Message]:
    """What a client is sent of an application's messages."""
    sent: list[Message] = []

    async def application(_scope: Message, _receive: object, send: Send) -> None:
        for message in messages:
            await send(message)

    async def keep(message: Message) -> None:
        sent.append(message)

    async def never() -> Message:
        raise AssertionError("nothing is received")

    asyncio.run(ErrorsOfMessages(application)({"type": kind, "path": path}, never, keep))
    return sent


def start(status: int, *headers: tuple[bytes, bytes]) -> Message:
    own = [(b"content-type", b"text/plain"), (b"content-length", b"3"), *headers]
    return {"type": "http.response.start", "status": status, "headers": own}


def body(content: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.mark.parametrize(
    ("status", "shown", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (404, 404, "not_found_error"),
        (422, 400, "invalid_request_error"),
        (500, 500, "api_error"),
        (501, 501, "api_error"),
        (503, 529, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_an_error_has_the_form_and_the_type_of_this_api(
    status: int, shown: int, kind: str, path: str
) -> None:
    begun, answer = sent_of(start(status), body(json.dumps(OPENAIS).encode()), path=path)
    assert begun["status"] == shown
    headers = dict(begun["headers"])
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(answer["body"])
    error = {"type": kind, "message": "no such model"}
    assert json.loads(answer["body"]) == {"type": "error", "error": error}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"type": "error", "error": {"type": "X", "message": "why"}}', "why"),
        (b'{"error": "Unauthorized"}', '{"error": "Unauthorized"}'),
        (b"Internal Server Error", "Internal Server Error"),
        (b"", "the request failed"),
    ],
)
def test_an_error_of_any_form_is_told(content: bytes, message: str) -> None:
    middle = len(content) // 2
    parts = [body(content[:middle], more=True), body(content[middle:])]
    _, answer = sent_of(start(400), *parts)
    assert json.loads(answer["body"])["error"]["message"] == message


def test_headers_for_the_gateway_stay() -> None:
    begun, _ = sent_of(start(503, TURNED_AWAY), body(b"{}"))
    assert TURNED_AWAY in begun["headers"]


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/v1/chat/completions"},
        {"path": "/v1/responses"},
        {"kind": "lifespan"},
    ],
)
def test_other_requests_are_none_of_its_business(other: dict[str, Any]) -> None:
    messages = [start(400), body(b"{}")]
    assert sent_of(*messages, **other) == messages


def test_answers_are_passed_on_as_they_come() -> None:
    messages = [start(200), body(b"event: message_start", more=True), body(b"")]
    assert sent_of(*messages) == messages
