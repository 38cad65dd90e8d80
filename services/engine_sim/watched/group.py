"""The watcher's part in a group of several members: it meets the others before the engine starts,
and ends it with any of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from program.group.membership import Formation, IncompleteError, Meeting, joined
from program.group.settings import Group, member_environment

T = TypeVar("T")
_LOG = logging.getLogger("engine_sim")


class GroupMember:
    """A membership in a thread of its own: the main thread waits for the engine and for signals.
    Use as a context manager."""

    def __init__(self, group: Group, meeting: Meeting, task_folder: Path) -> None:
        self._group = group
        self._meeting = meeting
        self._task_folder = task_folder
        self._while_it_lives = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="group", daemon=True)

    @property
    def leads(self) -> bool:
        return self._meeting.place.leads

    @property
    def is_suspect(self) -> bool:
        """Whether requests should go elsewhere."""
        return self._membership.is_suspect

    @property
    def may_be_lost(self) -> bool:
        return self._membership.may_be_lost

    def __enter__(self) -> GroupMember:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._while_it_lives.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def meet(self) -> Formation | None:
        """None if not all members were there in time. Raises OSError."""
        group = joined(self._meeting, _LOG.info, self._group.formation_s, self._task_folder)
        try:
            self._membership, formation = self._run(self._while_it_lives.enter_async_context(group))
        except IncompleteError as error:
            _LOG.error("%s", error)
            return None
        return formation

    def options(self, formation: Formation) -> list[str]:
        """Of the engine's command line, with vLLM's names."""
        values = {
            "--nnodes": self._group.members,
            "--node-rank": self._meeting.place.rank,
            "--master-addr": formation.master_address,
            "--master-port": formation.master_port,
        }
        return [word for name, value in values.items() for word in (name, str(value))]

    def environment(self) -> dict[str, str]:
        return member_environment(self._group, self._meeting.fabric_address)

    def on_lost(self, told: Callable[[str], None]) -> None:
        """Calls `told` with the reason once the formation has ended."""
        self._in_thread(self._tell_lost(told))

    def on_another_leaves(self, told: Callable[[], None]) -> None:
        """Calls `told` once another member is asked to end and rank 0 has left the rotation."""
        self._in_thread(self._tell_another_leaves(told))

    def leave(self) -> None:
        """Asks rank 0 to finish the group's requests."""
        self._in_thread(self._membership.leave())

    async def _tell_lost(self, told: Callable[[str], None]) -> None:
        told(await asyncio.shield(self._membership.lost))

    async def _tell_another_leaves(self, told: Callable[[], None]) -> None:
        await self._membership.out_of_rotation()
        told()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _in_thread(self, work: Coroutine[Any, Any, Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            asyncio.run_coroutine_threadsafe(work, self._loop)
