"""Connections between members, which exchange lines of JSON until their group is formed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]
_HELLO_S = 10.0  # whoever connects says by then who it is


class GroupError(Exception):
    """The group cannot be formed; the message says why."""


@dataclass(frozen=True, slots=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, address: str, port: int, source: str | None) -> Connection:
        """From the address `source`, if there is one. Raises OSError."""
        local = (source, 0) if source else None
        return cls(*await asyncio.open_connection(address, port, local_addr=local))

    @property
    def own_address(self) -> str:
        return str(self.writer.get_extra_info("sockname")[0])

    @property
    def peer_address(self) -> str:
        return str(self.writer.get_extra_info("peername")[0])

    def write(self, value: Object) -> None:
        self.writer.write(json.dumps(value).encode() + b"\n")

    async def read(self) -> Object:
        """Raises OSError if the other end has gone or does not speak of a group."""
        try:
            line = await self.reader.readline()
            value = json.loads(line) if line.endswith(b"\n") else None
        except ValueError as error:
            raise ConnectionError(f"no line of JSON: {error}") from error
        if not isinstance(value, dict):
            raise ConnectionError("no object" if line else "the other end has gone")
        return value

    async def gone(self) -> None:
        """Waits until the other end has closed it."""
        try:
            while await self.reader.read(1024):
                pass
        except OSError:
            pass

    def close(self) -> None:
        self.writer.close()


class Listener:
    """Reads the first object of every connection, and gives both to `receive`."""

    def __init__(self, receive: Callable[[Object, Connection], Awaitable[None]]) -> None:
        self._receive = receive
        self._server: asyncio.Server | None = None

    async def open(self, address: str, port: int) -> int:
        """The port, which the kernel chooses for port 0. Raises GroupError."""
        try:
            server = await asyncio.start_server(self._greet, address, port)
        except OSError as error:
            raise GroupError(f"cannot listen at {address}:{port}: {error.strerror}") from error
        self._server = server
        return int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Connections stay open."""
        if self._server is not None:
            self._server.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        try:
            hello = await asyncio.wait_for(connection.read(), _HELLO_S)
            await self._receive(hello, connection)
        except (OSError, asyncio.TimeoutError):
            connection.close()
