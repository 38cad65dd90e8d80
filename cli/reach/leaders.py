"""Asks a server of Consul or Nomad, with the operator's certificate, whether it knows a leader."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from cli.certificates import KEY, platform

ANSWER_S = 2.0
REQUEST = b"GET /v1/status/leader HTTP/1.0\r\nHost: localhost\r\n\r\n"


class NoLeaderError(Exception):
    """The server does not answer in time, or knows no leader."""


def operators_context(operator: Path) -> ssl.SSLContext | None:
    """None before the first `up` has written the operator's certificate."""
    return platform(operator) if (operator / KEY).is_file() else None


async def must_know_leader(socket: Path, context: ssl.SSLContext, server_name: str) -> None:
    """Raises NoLeaderError. The question needs no token."""
    try:
        async with asyncio.timeout(ANSWER_S):
            answer = await _asked(socket, context, server_name)
    except (OSError, TimeoutError) as error:
        raise NoLeaderError(str(error)) from None
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0] or body.strip() in (b"", b'""'):
        raise NoLeaderError(body.decode(errors="replace"))


async def _asked(socket: Path, context: ssl.SSLContext, server_name: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(
        socket, ssl=context, server_hostname=server_name
    )
    try:
        writer.write(REQUEST)
        return await reader.read()
    finally:
        writer.close()
