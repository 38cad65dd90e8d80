"""Closed-loop clients of OpenAI's streaming API, in one process that uses little of the processor.

Every client has one connection and one request at a time. A library's client would take as long per
event as the gateways that are compared: this one only looks for the first token and for the end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from bench.gateway.traces import Request

ANSWER_TOKENS = 8
# How every answer of the simulated engine begins (services/engine_sim/simulator/text.py).
FIRST_TOKEN = b"simulate"
LAST_EVENT = b"data: [DONE]"
RUN_S = 300.0  # ends a run that hangs

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`error` is empty if the stream was complete; only then the time to its first token counts."""

    ttft_ms: float
    error: str = ""


def encoded(request: Request, *, model: str, host: str) -> bytes:
    """The HTTP request, with the fields in the order of OpenAI's own client."""
    body = {
        "messages": [asdict(message) for message in request.messages],
        "model": model,
        "max_tokens": ANSWER_TOKENS,
        "stream": True,
    }
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer none\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def answers(
    address: Address, requests: Sequence[bytes], after: Sequence[int | None], concurrency: int
) -> list[Answer]:
    """What the requests were answered, in their order. One that follows another waits for its
    answer; what is not answered at the end of RUN_S is an error."""
    given: list[Answer | None] = [None] * len(requests)
    ended = {each: asyncio.Event() for each in after if each is not None}
    positions = iter(range(len(requests)))

    async def client() -> None:
        own = Client(address)
        try:
            for position in positions:
                before = after[position]
                if before is not None:
                    await ended[before].wait()
                given[position] = await own.ask(requests[position])
                if position in ended:
                    ended[position].set()
        finally:
            own.close()

    try:
        async with asyncio.timeout(RUN_S), asyncio.TaskGroup() as clients:
            for _ in range(concurrency):
                clients.create_task(client())
    except TimeoutError:
        pass
    missing = Answer(ttft_ms=0.0, error=f"no answer within {RUN_S:g} s")
    return [answer or missing for answer in given]


class Client:
    """One request at a time, over a connection that is opened again when it was closed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: _Connection | None = None

    async def ask(self, request: bytes) -> Answer:
        began_s = time.perf_counter()
        try:
            connection = await self._opened()
        except OSError as error:
            return Answer(ttft_ms=0.0, error=type(error).__name__)
        first_s, wrong = await connection.ask(request)
        return Answer(ttft_ms=0.0 if wrong else (first_s - began_s) * 1e3, error=wrong)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _opened(self) -> _Connection:
        if self._connection is None or self._connection.closed:
            loop = asyncio.get_running_loop()
            _, self._connection = await loop.create_connection(_Connection, *self._address)
        return self._connection


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.closed = False
        self._received = bytearray()
        self._first_s = 0.0
        self._ended: asyncio.Future[str] | None = None

    async def ask(self, request: bytes) -> tuple[float, str]:
        """When the first token came, by the performance counter, and what went wrong."""
        self._received.clear()
        self._first_s = 0.0
        self._ended = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        error = await self._ended
        return self._first_s, error

    def close(self) -> None:
        self.closed = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._first_s and FIRST_TOKEN in self._received:
            self._first_s = time.perf_counter()
        if _is_complete(self._received):
            if _closes(self._received):
                self.close()
            self._end(_error(self._received))

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed = True
        self._end("the connection was closed")

    def _end(self, error: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(error)


def _is_complete(received: bytearray) -> bool:
    """Whether an answer is there: up to its last chunk, or up to its length."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        return False
    length = dict(_headers(head)).get(b"content-length")
    if length is not None:
        return len(body) >= int(length)
    return body.endswith(b"0\r\n\r\n")


def _closes(received: bytearray) -> bool:
    head = received.partition(b"\r\n\r\n")[0]
    return dict(_headers(head)).get(b"connection", b"").lower() == b"close"


def _error(received: bytearray) -> str:
    status = received.split(b" ", 2)[1].decode()
    if status != "200":
        return f"HTTP {status}"
    if FIRST_TOKEN not in received or LAST_EVENT not in received:
        return "the stream was cut"
    return ""


def _headers(head: bytearray) -> Iterator[tuple[bytes, bytes]]:
    for line in bytes(head).split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        yield name.lower(), value.strip()
