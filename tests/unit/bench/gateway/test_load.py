"""The clients of bench/gateway against a server that answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from bench.gateway.load import Answer, answers, encoded
from bench.gateway.traces import Message, Request

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST = b'data: {"choices":[{"delta":{"content":"simulate"}}]}\n\n'
LAST = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"
OVERLOADED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nfull"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


WHOLE = (HEAD, chunk(FIRST), chunk(LAST) + END)
CUT = (HEAD, chunk(FIRST), END)


class Server:
    """Answers every request with the same pieces, each in a packet of its own."""

    def __init__(self, *pieces: bytes, then_closes: bool = False) -> None:
        self.pieces = pieces
        self.then_closes = then_closes
        self.asked: list[bytes] = []
        self.busy = self.busiest = self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                self.asked.append(await reader.readexactly(length))
                await self._answer(writer)
                if self.then_closes:
                    break
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        for piece in self.pieces:
            await asyncio.sleep(0.01)
            if piece == self.pieces[-1]:
                self.busy -= 1  # the client may ask again before this task goes on
            writer.write(piece)


@contextlib.asynccontextmanager
async def address(server: Server) -> AsyncIterator[tuple[str, int]]:
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[:2]


def question(text: str) -> bytes:
    request = Request(messages=(Message(role="user", content=text),))
    return encoded(request, model="peers", host="here")


async def asked(server: Server, count: int, concurrency: int) -> list[Answer]:
    async with address(server) as where:
        return await answers(
            where, [question(str(n)) for n in range(count)], [None] * count, concurrency
        )


async def test_the_time_to_the_first_token_is_that_of_its_packet() -> None:
    (answer,) = await asked(Server(*WHOLE), 1, 1)
    assert answer.error == ""
    assert answer.ttft_ms >= 20


async def test_as_many_requests_as_told_are_in_flight() -> None:
    server = Server(*WHOLE)
    given = await asked(server, 12, 4)
    assert [answer.error for answer in given] == [""] * 12
    assert server.busiest == server.connections == 4
    assert sorted(json.loads(body)["messages"][0]["content"] for body in server.asked) == sorted(
        map(str, range(12))
    )


async def test_an_answer_with_another_status_is_an_error() -> None:
    assert [answer.error for answer in await asked(Server(OVERLOADED), 2, 1)] == ["HTTP 503"] * 2


async def test_a_stream_without_its_last_event_is_an_error() -> None:
    (answer,) = await asked(Server(*CUT), 1, 1)
    assert answer.error == "the stream was cut"


async def test_a_connection_that_ends_within_an_answer_is_an_error() -> None:
    (answer,) = await asked(Server(HEAD, chunk(FIRST), then_closes=True), 1, 1)
    assert answer.error == "the connection was closed"


async def test_a_connection_that_was_closed_between_two_requests_is_opened_again() -> None:
    closing = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    server = Server(closing, *WHOLE[1:], then_closes=True)
    given = await asked(server, 3, 1)
    assert [answer.error for answer in given] == [""] * 3
    assert server.connections == 3


async def test_nobody_listens() -> None:
    async with address(Server()) as where:
        pass
    (answer,) = await answers(where, [question("a")], [None], 1)
    assert answer.error == "ConnectionRefusedError"


async def test_a_turn_waits_for_the_answer_before_it() -> None:
    server = Server(*WHOLE)
    async with address(server) as where:
        await answers(where, [question("a"), question("b"), question("c")], [None, 0, 1], 3)
    assert server.busiest == 1
