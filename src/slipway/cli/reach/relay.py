"""Connections to an address of this machine, carried on to a host that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CHUNK = 1 << 16
# For the first bytes of a server among several: a handshake on a busy machine takes less.
ANSWER_S = 8.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(near: Streams, sockets: Sequence[Path]) -> tuple[int, Streams] | None:
    """A connection to the first of these that answers, with its number; None if none does.

    OpenSSH accepts every connection and closes it if the host refuses it, so only an answer tells
    that a server is there. With several sockets the client must therefore speak first and wait, as
    in TLS: what it has said is said to the next server again.
    """
    if len(sockets) == 1:
        return 0, await asyncio.open_unix_connection(sockets[0])
    said = await near[0].read(CHUNK)
    for number, socket in enumerate(sockets if said else ()):
        far = await _answering(socket, said, near[1])
        if far is not None:
            return number, far
    return None


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


async def _answering(socket: Path, said: bytes, near: asyncio.StreamWriter) -> Streams | None:
    """A connection whose first answer has been passed on."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return None
    writer.write(said)
    with suppress(OSError, TimeoutError):
        if first := await asyncio.wait_for(reader.read(CHUNK), ANSWER_S):
            near.write(first)
            return reader, writer
    writer.close()
    return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
