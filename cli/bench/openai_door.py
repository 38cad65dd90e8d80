"""OpenAI's streaming API, with the moments at which bytes came from the socket.

While requests run, their answers are only recorded: what they mean is read when each has ended. h11
finds their ends; a whole HTTP client would take several times as long for each part.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import h11

from cli.bench.openai_events import Received, outcome_of
from cli.bench.outcome import TIMEOUT, Ask, Failed, Outcome
from cli.bench.workload import Prompt
from cli.protocols.openai_format import chat_request, completion_request

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiDoor:
    """`gateway` is a URL without a path. With `tls`, `server_name` is the name that the gateway's
    certificate must have. A request without an end after `timeout_s` has failed."""

    gateway: str
    model: str
    timeout_s: float
    now_s: Callable[[], float]
    tls: ssl.SSLContext | None = None
    server_name: str | None = None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Ask]:
        """Its connection is opened before the first question, and again when it was closed."""
        client = _Client(self)
        with suppress(OSError):  # the first question meets it again, and tells it
            await client.connect()
        try:
            yield client.ask
        finally:
            client.close()

    async def close(self) -> None:
        """Its clients share nothing."""

    def body(self, prompt: Prompt) -> tuple[str, bytes]:
        """The path, and the request."""
        if prompt.chat:
            path = CHAT
            document = chat_request(self.model, prompt.text, prompt.system, prompt.max_tokens)
        else:
            path = COMPLETIONS
            document = completion_request(self.model, prompt.text, prompt.max_tokens)
        whole: dict[str, Any] = {"ignore_eos": True} if prompt.whole_length else {}
        return path, json.dumps(document | whole).encode()


class _Client:
    def __init__(self, door: OpenAiDoor) -> None:
        self._door = door
        self._address = urlsplit(door.gateway)
        self._connection: _Connection | None = None

    async def connect(self) -> _Connection:
        if self._connection is None or self._connection.closed:
            door, address = self._door, self._address
            _, self._connection = await asyncio.get_running_loop().create_connection(
                lambda: _Connection(door.now_s),
                address.hostname or "",
                address.port or (80 if door.tls is None else 443),
                ssl=door.tls,
                server_hostname=door.server_name if door.tls else None,
            )
        return self._connection

    async def ask(self, prompt: Prompt) -> Outcome:
        path, body = self._door.body(prompt)
        now_s = self._door.now_s
        sent_s = now_s()
        try:
            async with asyncio.timeout(self._door.timeout_s):
                connection = await self.connect()
                received = await connection.post(self._address.netloc, path, body)
        except TimeoutError:
            self.close()
            said = f"no end within {self._door.timeout_s:g} s"
            return Failed(sent_s=sent_s, ended_s=now_s(), kind=TIMEOUT, said=said)
        except OSError as error:
            return Failed(sent_s=sent_s, ended_s=now_s(), kind=_kind(error), said=str(error))
        except asyncio.CancelledError:
            self.close()
            raise
        return outcome_of(received, sent_s=sent_s, ended_s=now_s())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _kind(error: OSError) -> str:
    """ "connection refused" """
    if isinstance(error, ssl.SSLError):
        return "TLS"
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.closed = False
        self._now_s = now_s
        self._parser = h11.Connection(h11.CLIENT)
        self._received = Received()
        self._ended: asyncio.Future[Received] | None = None

    async def post(self, host: str, path: str, body: bytes) -> Received:
        self._received = Received()
        self._ended = asyncio.get_running_loop().create_future()
        headers = [
            ("host", host),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
        ]
        events = (
            h11.Request(method="POST", target=path, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self._transport.write(b"".join(self._parser.send(each) or b"" for each in events))
        return await self._ended

    def close(self) -> None:
        self.closed = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        at_s = self._now_s()
        self._take(at_s, data)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._ended is not None and not self._ended.done():
            self._take(self._now_s(), b"")  # an answer without a length ends so
            self._end(str(error or "the connection was closed"))

    def _take(self, at_s: float, data: bytes) -> None:
        try:
            self._parser.receive_data(data)
            while (event := self._parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    self._received.status = event.status_code
                elif isinstance(event, h11.Data):
                    self._received.parts.append((at_s, bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage):
                    self._end("")
                    break
                elif isinstance(event, h11.ConnectionClosed):
                    break
        except h11.RemoteProtocolError as error:
            self._end(str(error))

    def _end(self, error: str) -> None:
        if self._ended is None or self._ended.done():
            return
        self._received.error = error
        if not error and self._parser.their_state is self._parser.our_state is h11.DONE:
            self._parser.start_next_cycle()
        else:
            self.close()
        self._ended.set_result(self._received)
