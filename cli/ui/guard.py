"""What every request passes before anything answers it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cli.ui.chat import CHAT
from cli.ui.origins import COOKIE, Origin
from cli.ui.policy import headers_of
from cli.ui.proxy.allowed import JOB_STATUSES, READING
from cli.ui.proxy.rights import AUTHORIZE
from cli.ui.rendering import moving_on
from cli.ui.session import ENTER, Sessions

# What is asked with a body, and changes nothing.
_ASKING = {"": {CHAT}, "nomad": {JOB_STATUSES}, "consul": {AUTHORIZE}}
NO_SESSION = (
    "This page belongs to the browser that opened the address printed by slipway ui; each address"
    " works once. End the command with Ctrl-C and start it again for another.\n"
)


class Guard:
    """Answers only requests for one of the `origins`, by a browser with a session there, that
    change nothing. Everything else is refused here.

    `apps` answer for the page ("") and for each upstream.
    """

    def __init__(
        self, origins: Mapping[str, Origin], sessions: Sessions, apps: Mapping[str, ASGIApp]
    ) -> None:
        self._origins, self._sessions, self._apps = origins, sessions, apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._apps[""](scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket could carry `nomad alloc exec`
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        origin = self._origin(headers)
        if origin is None:
            text = "There is no page of this name here.\n"
            await PlainTextResponse(text, status_code=421)(scope, receive, _kept(send, ""))
            return
        answer = self._refusal(scope, headers, origin)
        if answer is None:
            session = self._sessions.of(cookie_parser(headers.get("cookie", "")), origin)
            scope["state"] = {**scope.get("state", {}), "session": session}
        app = self._apps[origin.upstream] if answer is None else answer
        await app(scope, receive, _kept(send, origin.upstream))

    def _origin(self, headers: Headers) -> Origin | None:
        hosts = headers.getlist("host")
        return self._origins.get(hosts[0]) if len(hosts) == 1 else None

    def _refusal(self, scope: Scope, headers: Headers, origin: Origin) -> Response | None:
        """The answer to a request that gets no further; None for one that does."""
        method, path = scope["method"], scope["path"]
        asks = method == "POST" and path in _ASKING.get(origin.upstream, ())
        if method not in READING and not asks:
            text = f"{method} is refused: this page only reads.\n"
            return PlainTextResponse(text, status_code=405, headers={"Allow": "GET, HEAD"})
        if asks and headers.get("origin") != origin.url:
            return PlainTextResponse("Other sites get nothing.\n", status_code=403)
        if path == ENTER:
            return self._entered(scope, origin)
        if self._sessions.of(cookie_parser(headers.get("cookie", "")), origin) is None:
            return PlainTextResponse(NO_SESSION, status_code=401)
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not _visits(
            headers
        ):
            return PlainTextResponse("Other sites get nothing.\n", status_code=403)
        return None

    def _entered(self, scope: Scope, origin: Origin) -> Response:
        """A session for the token in the address, as a cookie, and the way on. That is a page of
        its own: after a redirect the visit would still be the other site's from which the address
        was opened, and browsers would hold a strict cookie back."""
        query = QueryParams(scope["query_string"])
        opened = scope["method"] == "GET"  # what previews an address does not use it up
        session = self._sessions.exchange(query.get("token", ""), origin) if opened else None
        if session is None:
            return PlainTextResponse(NO_SESSION, status_code=401)
        answer = HTMLResponse(moving_on(within(query.get("to", "/"))))
        answer.set_cookie(COOKIE, session.id, httponly=True, samesite="strict", path="/")
        return answer


def within(place: str) -> str:
    """A path of the same origin; "/" for anything else."""
    if not place.startswith("/") or place.startswith(("//", "/\\")):
        return "/"
    return quote(place, safe="/?&=%@:~.-_")


def _visits(headers: Headers) -> bool:
    """Whether a person goes there: a link leads to a page, and no other page can read it."""
    return (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _kept(send: Send, upstream: str) -> Send:
    """Puts the policy on every answer, whoever gives it."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers_of(upstream))
        await send(message)

    return sending
