"""The ring 0 -> 1 -> ... -> N-1 -> 0, round which every step goes.

A member that is gone is no error here: as in vLLM, whoever waits for it waits for ever. Whether the
group still moves is for its launchers and the liveness page to say.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from dataclasses import dataclass
from typing import NoReturn

from simulator.group.connection import Connection, GroupError, Object

_STEP = struct.Struct("!Q")  # its number, from 1
_LOG = logging.getLogger("engine_sim")


@dataclass(frozen=True, slots=True)
class Ring:
    """One member's connections: from the rank before it, and to the one after it."""

    before: Connection
    after: Connection

    async def receive(self) -> int:
        """The number of the step that comes next; never returns once the connection is lost."""
        try:
            message = await self.before.reader.readexactly(_STEP.size)
        except (OSError, EOFError):
            await _hang("from the rank before this one")
        (number,) = _STEP.unpack(message)
        return int(number)

    async def send(self, number: int) -> None:
        """Never returns once the connection is known to be lost."""
        try:
            self.after.writer.write(_STEP.pack(number))
            await self.after.writer.drain()
        except OSError:
            await _hang("to the rank after this one")

    def close(self) -> None:
        self.before.close()
        self.after.close()


class RingArrivals:
    """Connections that say they come from the rank before this one."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[tuple[Object, Connection]] = asyncio.Queue()
        self._found = False

    async def put(self, hello: Object, connection: Connection) -> None:
        if self._found:
            connection.close()
        else:
            self._arrived.put_nowait((hello, connection))

    async def of(self, formation: str, rank: int) -> Connection:
        """That of `rank` in this formation; others are closed."""
        while True:
            hello, connection = await self._arrived.get()
            if hello == _hello(formation, rank):
                self._found = True
                return connection
            connection.close()


async def connect(
    address: str, port: int, source: str | None, *, formation: str, rank: int
) -> Connection:
    """The connection of `rank` to the member after it. Raises GroupError."""
    try:
        connection = await Connection.to(address, port, source)
    except OSError as error:
        raise GroupError(f"rank {rank} cannot reach {address}:{port}: {error}") from error
    connection.write(_hello(formation, rank))
    return connection


def _hello(formation: str, rank: int) -> Object:
    return {"formation": formation, "from_rank": rank}


async def _hang(connection: str) -> NoReturn:
    _LOG.warning("the connection %s is lost: its steps never end", connection)
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")
