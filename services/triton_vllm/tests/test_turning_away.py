"""What vLLM's server refuses while a member of its group may be lost."""

from __future__ import annotations

import asyncio
import json

import pytest
from engine_client import HEADERS
from engine_turning_away import Message, Send, TurnsAway
from program.liveness.progress import VARIABLE, Progress

SERVED: Message = {"type": "http.response.start", "status": 200, "headers": []}
FROM_TRITON = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> Progress:
    progress = Progress.create()
    monkeypatch.setenv(VARIABLE, progress.path)
    return progress


def request(path: str = "/v1/completions", method: str = "POST", **more: object) -> Message:
    return {"type": "http", "method": method, "path": path, "headers": [], **more}


def sent_of(*scopes: Message, turns_away: bool, progress: Progress) -> list[list[Message]]:
    """What the client of each request is sent."""
    sent: list[list[Message]] = []

    async def application(_scope: Message, _receive: object, send: Send) -> None:
        await send(SERVED)

    async def keep(message: Message) -> None:
        sent[-1].append(message)

    async def never() -> Message:
        raise AssertionError("nothing is received")

    async def ask() -> None:
        middleware = TurnsAway(application)
        progress.turn_away(turns_away)
        for scope in scopes:
            sent.append([])
            await middleware(scope, never, keep)

    asyncio.run(ask())
    return sent


def test_requests_are_served_until_the_launcher_says_otherwise(progress: Progress) -> None:
    assert sent_of(request(), turns_away=False, progress=progress) == [[SERVED]]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
def test_a_new_request_is_for_another_replica(path: str, progress: Progress) -> None:
    ((start, body),) = sent_of(request(path), turns_away=True, progress=progress)
    headers = dict(start["headers"])
    assert start["status"] == 503
    assert headers[b"x-slipway-replica-unreachable"] == b"true"
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    error = json.loads(body["body"])["error"]
    assert (error["code"], error["type"]) == (503, "ServiceUnavailableError")


@pytest.mark.parametrize(
    "scope",
    [
        request("/health", "GET"),
        request("/metrics", "GET"),
        request("/v1/models", "GET"),
        request("/detokenize"),
        request(headers=FROM_TRITON),
        {"type": "lifespan"},
    ],
    ids=str,
)
def test_everything_else_is_served(scope: Message, progress: Progress) -> None:
    assert sent_of(scope, turns_away=True, progress=progress) == [[SERVED]]


def test_a_server_without_a_launcher_turns_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert sent_of(request(), turns_away=True, progress=Progress.create()) == [[SERVED]]
