"""The pings by which Envoy tests whether a quiet HTTP/2 connection is alive."""

from __future__ import annotations

import asyncio

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS = bytes.fromhex("000000 04 00 00000000")
_PING = bytes.fromhex("000008 06 00 00000000") + bytes(8)
_PING_KIND, _ACK = 6, 1


async def answered_pings(host: str, port: int, asked: int) -> int:
    """How many of `asked` successive pings a server answers before it closes the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(_PREFACE + _SETTINGS)
    try:
        for answered in range(asked):
            writer.write(_PING)
            if not await _acknowledged(reader):
                return answered
        return asked
    finally:
        writer.close()


async def _acknowledged(reader: asyncio.StreamReader) -> bool:
    while header := await _frame_header(reader):
        kind, flags = header[3], header[4]
        await reader.readexactly(int.from_bytes(header[:3], "big"))
        if kind == _PING_KIND and flags & _ACK:
            return True
    return False


async def _frame_header(reader: asyncio.StreamReader) -> bytes:
    """Empty when the connection has ended."""
    try:
        return await reader.readexactly(9)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
