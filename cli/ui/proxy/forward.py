"""Sends a reading request on to Nomad, Consul or Prometheus with the operator's rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import quote

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from cli.errors import CliError
from cli.ui.body import TooLongError, body_within
from cli.ui.proxy.allowed import is_allowed
from cli.ui.proxy.rights import own_answer

LONGEST_BODY = 1_000_000  # bytes: the IDs of all jobs
NOBODY_WAITS = 499  # as nginx calls it; nobody reads it

# Nothing else passes: no cookie, no token of the browser's, no upgrade to another protocol.
_SENT_ON = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "content-type",
        "if-modified-since",
        "if-none-match",
        "range",
    }
)
_SENT_BACK = frozenset(
    {
        "accept-ranges",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "last-modified",
        "vary",
    }
)
_SENT_BACK_PREFIXES = ("x-nomad-", "x-consul-")


class Forward:
    """An ASGI app. `client` and `authorization` are asked for each request: an `up` may have
    replaced addresses, certificates and tokens."""

    def __init__(
        self,
        upstream: str,
        client: Callable[[], httpx.AsyncClient],
        authorization: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._upstream, self._client, self._authorization = upstream, client, authorization

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        raw_path = request.scope["raw_path"].decode("ascii", "replace")
        name = self._upstream.capitalize()
        try:
            asked = await body_within(request, LONGEST_BODY) if request.method == "POST" else b""
        except TooLongError:
            return PlainTextResponse("The question is too long.\n", status_code=413)
        own = own_answer(self._upstream, request.scope["path"], asked)
        if own is not None:
            return JSONResponse(own)
        if not is_allowed(self._upstream, request.method, raw_path):
            text = f"{request.method} {raw_path} is not sent on to {name}: this page only reads.\n"
            return PlainTextResponse(text, status_code=403)
        return await self._sent_on(request, raw_path, asked)

    async def _sent_on(self, request: Request, raw_path: str, asked: bytes) -> Response:
        name = self._upstream.capitalize()
        try:
            place = _place(raw_path, request.scope["query_string"])
        except httpx.InvalidURL as error:
            return PlainTextResponse(f"This is no address: {error}\n", status_code=400)
        try:
            client = self._client()
        except (CliError, OSError) as error:
            return PlainTextResponse(f"{name} cannot be asked: {error}\n", status_code=502)
        sent = client.build_request(
            request.method,
            place,
            headers={
                **{key: value for key, value in request.headers.items() if key in _SENT_ON},
                **self._authorization(),
            },
            content=asked or None,
        )
        try:
            answer = await _while_visited(request, client.send(sent, stream=True))
        except httpx.HTTPError as error:
            text = f"{name} does not answer: {error or type(error).__name__}\n"
            return PlainTextResponse(text, status_code=502)
        if answer is None:
            return Response(status_code=NOBODY_WAITS)
        return StreamingResponse(
            _body(answer),
            status_code=answer.status_code,
            headers=_sent_back(answer.headers),
        )


async def _while_visited(
    request: Request, sent: Coroutine[Any, Any, httpx.Response]
) -> httpx.Response | None:
    """The answer, whose headers may take minutes (a page waits for changes); None where the visitor
    leaves first, which ends the request: servers allow an address few connections. Raises
    httpx.HTTPError."""
    sending, leaving = asyncio.create_task(sent), asyncio.create_task(_left(request))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await sending if sending.done() else None
    finally:
        for each in (sending, leaving):
            each.cancel()


async def _left(request: Request) -> None:
    """Returns when the visitor has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _place(raw_path: str, query: bytes) -> httpx.URL:
    """Raises httpx.InvalidURL."""
    if not query:
        return httpx.URL(raw_path)
    return httpx.URL(raw_path, query=query.decode("ascii", "replace").encode())


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    """As it came, compressed or not; the connection ends with the visitor's."""
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


def _sent_back(headers: httpx.Headers) -> dict[str, str]:
    kept = {
        key: value
        for key, value in headers.items()
        if key in _SENT_BACK or key.startswith(_SENT_BACK_PREFIXES)
    }
    place = headers.get("location", "")
    # Servers redirect within themselves only ("/" to "/ui/").
    if place.startswith("/") and not place.startswith("//"):
        kept["location"] = quote(place, safe="/?&=%@:~.-_")
    return kept
