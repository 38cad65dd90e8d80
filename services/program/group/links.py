"""A connection between two members, and how long it has been quiet. Each line is a JSON object."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from typing import Any

BEAT_S = 0.5
LOOK_S = 0.25
SUSPECT_BEATS = 4  # missed in a row
MOST_BYTES = 4096  # of a line
IDLE_S, ASKED_AGAIN_S, UNANSWERED = 5, 2, 3  # then the kernel takes the other host for lost

Message = dict[str, Any]


class LinkLostError(Exception):
    """The other side has closed the connection or said something that is no message."""


class Link:
    """One side of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        _keep_alive(writer)

    async def receive(self) -> Message:
        """The next message. Raises LinkLostError."""
        try:
            line = await self._reader.readuntil(b"\n")
            content = json.loads(line)
        except (
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ) as error:
            raise LinkLostError(str(error) or type(error).__name__) from error
        if not isinstance(content, dict):
            raise LinkLostError("not an object")
        return content

    def send(self, message: Message) -> None:
        """Never waits: a message to a member that does not read is lost with the connection."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        self._writer.close()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Before a formation nobody beats, so the kernel asks whether the other host lives."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, IDLE_S),
        (socket.TCP_KEEPINTVL, ASKED_AGAIN_S),
        (socket.TCP_KEEPCNT, UNANSWERED),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


class Silence:
    """How long nothing has been heard. A gap between two looks counts as one look: whoever was
    stopped itself has not listened."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._last_look_s = now()
        self.quiet_for_s = 0.0

    def heard(self) -> None:
        self.quiet_for_s = 0.0

    def look(self) -> None:
        now_s = self._now()
        self.quiet_for_s += min(now_s - self._last_look_s, 2 * LOOK_S)
        self._last_look_s = now_s

    @property
    def is_suspect(self) -> bool:
        return self.quiet_for_s >= SUSPECT_BEATS * BEAT_S
