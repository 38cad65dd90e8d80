"""Response headers come with the first token.

vLLM sends the headers of a stream before its engine has begun, and an error before the first token
as an event of a stream that looks successful. The Responses API even begins with events of its own.
Here headers wait for the first event that the engine has caused, and such an error becomes the
answer's status: an answer without headers has shown the client nothing.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

DATA, KIND = b"data: ", b"event: "
# The events with which a response begins before its engine does.
BEFORE_THE_ENGINE = (KIND + b"response.created\n", KIND + b"response.in_progress\n")
FAILED = 500  # where an error has no status of its own


class HeadersWithTheFirstToken:
    """ASGI middleware, around all that answers requests."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            send = _Held(send)
        await self._app(scope, receive, send)


class _Held:
    """The sending side of one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: list[Message] = []  # the start of the answer, and what came before a token
        self._failed = False

    async def __call__(self, message: Message) -> None:
        body = message.get("body", b"")
        caused = _caused_by_the_engine(body) if self._held else body
        if message["type"] == "http.response.start" or (
            body and not caused and message.get("more_body")
        ):
            self._held.append(message)
            return
        if self._failed:  # what a stream says after its error
            return
        held, self._held = self._held, []
        if held and (error := _error_of(held[0], caused)) is not None:
            self._failed = True
            await self._answer(error)
            return
        for each in (*held, message):
            await self._send(each)

    async def _answer(self, error: dict[str, Any]) -> None:
        body = json.dumps(error).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        status = error["error"].get("code")
        status = status if isinstance(status, int) and 400 <= status < 600 else FAILED
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _caused_by_the_engine(body: bytes) -> bytes:
    """A part of a stream without the events from before the engine began."""
    events = body.split(b"\n\n")
    return b"\n\n".join(each for each in events if not each.startswith(BEFORE_THE_ENGINE))


def _error_of(start: Message, body: bytes) -> dict[str, Any] | None:
    """The error that is the first event of a stream."""
    kind = dict(start.get("headers", ())).get(b"content-type", b"")
    first = next((line for line in body.split(b"\n") if not line.startswith(KIND)), b"")
    if not kind.startswith(b"text/event-stream") or not first.startswith(DATA):
        return None
    try:
        event = json.loads(first.removeprefix(DATA))
    except ValueError:
        return None
    found = isinstance(event, dict) and isinstance(event.get("error"), dict)
    return event if found else None
