"""Connections to an address of this machine, carried on to a host that answers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from pathlib import Path

from slipway.cli.reach.race import first

CHUNK = 1 << 16
HEAD_START_S = 1.5  # of a server before the next one is asked, too
ANSWER_S = 15.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answering(said: bytes, sockets: Sequence[Path]) -> tuple[int, bytes, Streams]:
    """The first of these that answers: its number, the answer, and the connection. Raises
    AllFailedError.

    OpenSSH accepts every connection and closes it if the host refuses it, so only an answer tells
    that a server is there. `said` is what the client has said and waits after, as in TLS: no server
    has done anything yet that another one must not do again.
    """
    attempts = [functools.partial(_answer, said, socket) for socket in sockets]
    number, (answer, streams) = await first(attempts, _discard, head_start_s=HEAD_START_S)
    return number, answer, streams


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
