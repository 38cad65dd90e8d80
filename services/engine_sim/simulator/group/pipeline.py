"""What the engine of rank 0 knows of its group."""

from __future__ import annotations

import logging
from typing import Protocol

from simulator.group.gathering import Gathering
from simulator.group.place import Place
from simulator.group.ring import Ring

_LOG = logging.getLogger("engine_sim")


class Pipeline(Protocol):
    """The members through which a step passes."""

    async def form(self) -> None:
        """Waits until all members are there. Raises GroupError."""

    async def pass_step(self) -> None:
        """Returns when the step has passed every member, which is never if one is gone."""

    def close(self) -> None: ...


class OneStage:
    """The pipeline of a replica of one."""

    async def form(self) -> None:
        pass

    async def pass_step(self) -> None:
        pass

    def close(self) -> None:
        pass


class GroupPipeline:
    """Sends a message to rank 1 for every step, and waits until the last rank has passed it on."""

    def __init__(self, place: Place, model: str, limit_s: float) -> None:
        self._gathering = Gathering(place, model)
        self._limit_s = limit_s
        self._ring: Ring | None = None
        self._steps = 0

    async def form(self) -> None:
        self._ring = await self._gathering.formed(self._limit_s)
        _LOG.info("the group is complete")

    async def pass_step(self) -> None:
        assert self._ring is not None  # noqa: S101  (steps begin after `form`)
        await self._ring.send(self._steps + 1)
        self._steps = await self._ring.receive()

    def close(self) -> None:
        self._gathering.close()
        if self._ring is not None:
            _LOG.info("%d steps have passed all ranks", self._steps)
            self._ring.close()
