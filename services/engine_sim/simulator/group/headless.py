"""The process of a rank above 0: it serves nobody, and passes steps on."""

from __future__ import annotations

import asyncio
import logging

from program.liveness.progress import Progress

from simulator.document import Replica
from simulator.group.connection import GroupError
from simulator.group.joining import joined
from simulator.group.place import Place
from simulator.signals import terminated

_LOG = logging.getLogger("engine_sim")


async def run_headless(replica: Replica, place: Place, progress: Progress) -> int:
    """Exit codes: 0 after SIGTERM, 1 if there is no group for it."""
    ending = asyncio.create_task(terminated().wait())
    passing = asyncio.create_task(_pass_on(replica, place, progress))
    await asyncio.wait((passing, ending), return_when=asyncio.FIRST_COMPLETED)
    if passing.done():
        failure = passing.exception()
        expected = isinstance(failure, GroupError)
        _LOG.error("%s", failure, exc_info=None if expected else failure)
        return 1
    passing.cancel()
    _LOG.info("rank %d has passed on %d steps", place.rank, progress.seen().steps)
    return 0


async def _pass_on(replica: Replica, place: Place, progress: Progress) -> None:
    """It cannot know whether a step is due, so its progress tells of none outstanding."""
    ring = await joined(place, replica.model, replica.load_timeout_s)
    await asyncio.sleep(replica.engine.startup_s)
    _LOG.info("rank %d of %d passes on steps of %s", place.rank, place.nodes, replica.model)
    while True:
        await ring.send(await ring.receive())
        progress.step_ended()
