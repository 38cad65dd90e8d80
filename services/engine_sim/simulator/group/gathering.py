"""Rank 0's side of the rendezvous: it waits until every rank has joined, then closes the ring."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass

from simulator.group.connection import Connection, GroupError, Listener, Object
from simulator.group.place import Place
from simulator.group.ring import Ring, RingArrivals, connect

_LOG = logging.getLogger("engine_sim")


@dataclass(frozen=True, slots=True)
class _Joined:
    """A member that waits for the group, and where it waits for the rank before it."""

    connection: Connection
    address: str
    port: int


class Gathering:
    """Forms one group. Refuses those that do not belong to it, also once it is formed."""

    def __init__(self, place: Place, model: str) -> None:
        self._place = place
        self._model = model
        self._listener = Listener(self._receive)
        self._returning = RingArrivals()
        self._joined: dict[int, _Joined] = {}
        self._changed = asyncio.Event()
        self._formation = ""

    async def formed(self, limit_s: float) -> Ring:
        """Raises GroupError: it cannot listen, or the group is not complete after `limit_s`."""
        place = self._place
        await self._listener.open(place.master_address, place.master_port)
        try:
            return await asyncio.wait_for(self._form(), limit_s)
        except asyncio.TimeoutError:
            missing = _ranks(self._missing) or "the steps' way back to rank 0"
            raise GroupError(f"missing after {limit_s:g} s at {place.master}: {missing}") from None

    def close(self) -> None:
        self._listener.close()

    async def _form(self) -> Ring:
        place = self._place
        _LOG.info("rank 0 of %d waits at %s for the others", place.nodes, place.master)
        while self._missing:
            self._changed.clear()
            await self._changed.wait()
        self._formation = secrets.token_hex(8)
        self._tell_who_is_next()
        first, source = self._joined[1], place.host_address
        after = await connect(first.address, first.port, source, formation=self._formation, rank=0)
        return Ring(await self._returning.of(self._formation, place.nodes - 1), after)

    def _tell_who_is_next(self) -> None:
        place = self._place
        for rank, member in self._joined.items():
            address, port = place.master_address, place.master_port  # after the last rank
            if rank + 1 in self._joined:
                following = self._joined[rank + 1]
                address, port = following.address, following.port
            member.connection.write(
                {"formation": self._formation, "address": address, "port": port}
            )

    @property
    def _missing(self) -> list[int]:
        return [rank for rank in range(1, self._place.nodes) if rank not in self._joined]

    async def _receive(self, hello: Object, connection: Connection) -> None:
        if "formation" in hello:
            await self._returning.put(hello, connection)
            return
        rank, address, port = (hello.get(name) for name in ("rank", "address", "port"))
        reason = self._refusal(hello)
        if reason or not isinstance(address, str) or not isinstance(port, int):
            _LOG.warning("refused rank %s from %s: %s", rank, connection.peer_address, reason)
            connection.write({"refused": reason or "it does not say where it listens"})
            connection.close()
            return
        assert isinstance(rank, int)  # noqa: S101  (others are refused)
        _LOG.info("rank %d of %d has joined from %s", rank, self._place.nodes, address)
        self._joined[rank] = _Joined(connection, address, port)
        self._changed.set()
        await connection.gone()
        connection.close()
        if not self._formation:
            _LOG.info("rank %d has gone before the group was complete", rank)
            del self._joined[rank]

    def _refusal(self, hello: Object) -> str | None:
        nodes, rank = self._place.nodes, hello.get("rank")
        if hello.get("model") != self._model:
            return f"it serves {hello.get('model')!r}, this group {self._model!r}"
        if hello.get("nodes") != nodes:
            return f"it belongs to a group of {hello.get('nodes')}, this is one of {nodes}"
        if not isinstance(rank, int) or not 0 < rank < nodes:
            return f"others than rank 0 are {_ranks(range(1, nodes))} in this group"
        if rank in self._joined:
            return f"rank {rank} has joined from {self._joined[rank].address} already"
        return None


def _ranks(ranks: range | list[int]) -> str:
    names = ", ".join(map(str, ranks))
    return f"rank{'s' if len(ranks) > 1 else ''} {names}" if names else ""
