"""Errors of the Messages API, in that API's form and with its names.

vLLM answers a wrong body under /v1/messages in OpenAI's form, and names other errors as it does
there. Clients of this API read {"type": "error", "error": {"type", "message"}} with the types of
https://docs.anthropic.com/en/api/errors.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

PATHS = "/v1/messages"
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
OTHER_TYPES = {4: "invalid_request_error", 5: "api_error"}  # by the first digit
STATUS = {422: 400, 503: 529}  # what this API has for statuses that it does not have
OF_THE_BODY = (b"content-type", b"content-length")


class ErrorsOfMessages:
    """ASGI middleware, around all that answers requests and all other middleware."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PATHS):
            send = _InForm(send)
        await self._app(scope, receive, send)


class _InForm:
    """The sending side of one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._refusal: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            self._refusal = message
        elif self._refusal is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._refuse(self._refusal["status"], self._refusal.get("headers", ()))

    async def _refuse(self, status: int, headers: Headers) -> None:
        status = STATUS.get(status, status)
        kind = TYPES.get(status) or OTHER_TYPES[status // 100]
        error = {"type": kind, "message": _message(self._body)}
        body = json.dumps({"type": "error", "error": error}).encode()
        kept = [(name, value) for name, value in headers if name.lower() not in OF_THE_BODY]
        own = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self._send(
            {"type": "http.response.start", "status": status, "headers": [*kept, *own]}
        )
        await self._send({"type": "http.response.body", "body": body})


def _message(body: bytes) -> str:
    """What an error in either form says."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace") or "the request failed"
