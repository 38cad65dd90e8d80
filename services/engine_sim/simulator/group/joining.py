"""The rendezvous of the ranks above 0: each asks rank 0, and learns which member is after it."""

from __future__ import annotations

import asyncio
import logging

from simulator.group.connection import Connection, GroupError, Listener, Object
from simulator.group.place import Place
from simulator.group.ring import Ring, RingArrivals, connect

_RETRY_S = 0.5
_LOG = logging.getLogger("engine_sim")


async def joined(place: Place, model: str, limit_s: float) -> Ring:
    """Raises GroupError: rank 0 refuses it, or the group is not formed after `limit_s`."""
    try:
        return await asyncio.wait_for(_join(place, model), limit_s)
    except asyncio.TimeoutError:
        raise GroupError(
            f"rank {place.rank}: no group with rank 0 at {place.master} after {limit_s:g} s"
        ) from None


async def _join(place: Place, model: str) -> Ring:
    _LOG.info("rank %d of %d waits for rank 0 at %s", place.rank, place.nodes, place.master)
    arrivals = RingArrivals()
    listener = Listener(arrivals.put)
    port, answer = 0, None
    while answer is None:
        connection = await _reached(place)
        address = place.host_address or connection.own_address
        port = port or await listener.open(address, 0)
        hello = {"model": model, "nodes": place.nodes, "rank": place.rank}
        answer = await _answer(connection, {**hello, "address": address, "port": port})
    ring = await _ring(place, answer, arrivals)
    listener.close()
    return ring


async def _reached(place: Place) -> Connection:
    while True:
        try:
            return await Connection.to(place.master_address, place.master_port, place.host_address)
        except OSError:
            await asyncio.sleep(_RETRY_S)


async def _answer(connection: Connection, hello: Object) -> Object | None:
    """None if rank 0 has gone, which may come back."""
    connection.write(hello)
    try:
        return await connection.read()
    except OSError:
        await asyncio.sleep(_RETRY_S)
        return None
    finally:
        connection.close()


async def _ring(place: Place, answer: Object, arrivals: RingArrivals) -> Ring:
    if "refused" in answer:
        raise GroupError(f"rank {place.rank} is refused at {place.master}: {answer['refused']}")
    formation = answer["formation"]
    after = await connect(
        answer["address"],
        answer["port"],
        place.host_address,
        formation=formation,
        rank=place.rank,
    )
    return Ring(await arrivals.of(formation, place.rank - 1), after)
