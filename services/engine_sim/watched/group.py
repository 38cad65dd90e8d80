"""The watcher's part in a group of several members: it meets the others before the engine starts,
and ends it with any of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from program.group.giving_back import give_back, given_back
from program.group.membership import Formation, IncompleteError, Meeting, Membership
from program.group.settings import Group, member_environment

T = TypeVar("T")
_LOG = logging.getLogger("engine_sim")
# Until Envoys have seen on the page that the group takes no more requests.
_LEAVES_ROTATION_S = 3.0


class GroupMember:
    """A membership in a thread of its own: the main thread waits for the engine and for signals.
    Use as a context manager."""

    def __init__(self, group: Group, meeting: Meeting, task_folder: Path) -> None:
        self._group = group
        self._meeting = meeting
        self._task_folder = task_folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="group", daemon=True)

    @property
    def leads(self) -> bool:
        return self._meeting.place.leads

    @property
    def is_suspect(self) -> bool:
        """Whether requests should go elsewhere: a member is gone, or about to be."""
        return self._membership.is_suspect or self._membership.another_leaves.is_set()

    def __enter__(self) -> GroupMember:
        self._thread.start()
        self._membership = self._run(self._entered())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._membership.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def meet(self) -> Formation | None:
        """None if not all members were there in time: then the hosts of those that are there are
        given back."""
        if reason := given_back(self._task_folder):
            _LOG.error("this host is given back: %s", reason)
            return None
        try:
            return self._run(self._membership.form(self._group.formation_s))
        except IncompleteError as error:
            give_back(self._task_folder, str(error))
            _LOG.error("%s", error)
            return None

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

    async def _entered(self) -> Membership:
        return await Membership(self._meeting, _LOG.info).__aenter__()

    async def _tell_lost(self, told: Callable[[str], None]) -> None:
        told(await asyncio.shield(self._membership.lost))

    async def _tell_another_leaves(self, told: Callable[[], None]) -> None:
        await self._membership.another_leaves.wait()
        await asyncio.sleep(_LEAVES_ROTATION_S)
        told()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _in_thread(self, work: Coroutine[Any, Any, Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            asyncio.run_coroutine_threadsafe(work, self._loop)
