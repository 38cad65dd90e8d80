"""Connections to an address of this machine, carried on to a host that answers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path

from cli.reach.race import first

CHUNK = 1 << 16
ANSWER_S = 15.0
# What a client of HTTP/2 says first, and what every Envoy answers at once: no request is in it.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answering(
    said: bytes, sockets: Sequence[Path], head_start_s: float
) -> tuple[int, bytes, Streams]:
    """The first of these that answers: its number, the answer, and the connection. Raises
    AllFailedError.

    OpenSSH accepts every connection and closes it if the host refuses it, so only an answer tells
    that a server is there. `said` is what the client has said and waits after, as in TLS: no server
    has done anything yet that another one must not do again.
    """
    attempts = [functools.partial(_answer, said, socket) for socket in sockets]
    number, (answer, streams) = await first(attempts, _discard, head_start_s=head_start_s)
    return number, answer, streams


async def greeted(
    said: bytes, sockets: Sequence[Path], head_start_s: float
) -> tuple[int, bytes, Streams]:
    """Like `answering`, of Envoys without TLS, where `said` may be a request: it takes its time,
    and is sent only to the one that has answered a greeting. There is no answer yet."""
    number, _, streams = await answering(GREETING, sockets, head_start_s)
    streams[1].close()
    reader, writer = await asyncio.open_unix_connection(sockets[number])
    writer.write(said)
    return number, b"", (reader, writer)


async def carry(near: Streams, far: Streams) -> None:
    """Both directions, until both have ended or one has failed."""
    directions = [
        asyncio.create_task(_copy(near[0], far[1])),
        asyncio.create_task(_copy(far[0], near[1])),
    ]
    try:
        await asyncio.gather(*directions)
    finally:
        for direction in directions:
            direction.cancel()
        far[1].close()


async def _answer(said: bytes, socket: Path) -> tuple[bytes, Streams]:
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write(said)
        answer = await asyncio.wait_for(reader.read(CHUNK), ANSWER_S)
        if not answer:
            raise ConnectionResetError("the host has closed the connection")
    except BaseException:
        writer.close()
        raise
    return answer, (reader, writer)


async def _discard(made: tuple[bytes, Streams]) -> None:
    made[1][1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
