"""New requests are turned away while a member of the replica's group may be lost.

Envoys see the liveness page up to a second after it has changed. What reaches rank 0 meanwhile
would fail with the group, so it is refused at once, with the header for which the gateway tries
another replica.
"""

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from program.liveness.progress import VARIABLE, Progress

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# All that generates. Triton also asks /detokenize, for streams that have begun.
GENERATING = "/v1/"
# What comes from Triton (HEADERS of backend/engine_client.py).
CANNOT_GO_ELSEWHERE = b"x-slipway-cannot-go-elsewhere"
# UNREACHABLE_HEADER of the control plane's routes.
TRY_ANOTHER = (b"x-slipway-replica-unreachable", b"true")
REASON = "a member of this replica may be lost"


class TurnsAway:
    """ASGI middleware, around all that answers requests."""

    def __init__(self, app: App) -> None:
        self._app = app
        path = os.environ.get(VARIABLE)
        self._progress = Progress.open(path) if path else Progress.create()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._progress.turns_away and _may_go_elsewhere(scope):
            await _refuse(send)
        else:
            await self._app(scope, receive, send)


def _may_go_elsewhere(scope: Message) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "POST"
        and scope["path"].startswith(GENERATING)
        and CANNOT_GO_ELSEWHERE not in dict(scope["headers"])
    )


async def _refuse(send: Send) -> None:
    error = {"message": REASON, "type": "ServiceUnavailableError", "param": None, "code": 503}
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        TRY_ANOTHER,
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
