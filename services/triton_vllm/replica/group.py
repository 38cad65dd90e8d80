"""This launcher's part in a replica of several members."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from program.group.membership import IncompleteError, Meeting, Membership, joined
from program.group.settings import Group, member_environment, read_meeting, task_folder

from replica.engine import EngineMember
from replica.errors import InputError, RunError
from replica.journal import Journal


class GroupMember:
    """Meets the other members before the engine starts, and knows when one of them is gone."""

    def __init__(self, group: Group, meeting: Meeting, task_folder: Path, journal: Journal) -> None:
        self._group = group
        self._meeting = meeting
        self._task_folder = task_folder
        self._journal = journal
        self._membership: Membership | None = None

    @property
    def leads(self) -> bool:
        return self._meeting.place.leads

    def environment(self) -> dict[str, str]:
        """The engine's further variables."""
        return member_environment(self._group, self._meeting.fabric_address)

    @property
    def is_suspect(self) -> bool:
        """Whether requests should go elsewhere."""
        return self._membership is not None and self._membership.is_suspect

    @property
    def may_be_lost(self) -> bool:
        return self._membership is not None and self._membership.may_be_lost

    async def meet(self, while_it_lives: AsyncExitStack) -> EngineMember:
        """Waits for all members. Raises RunError if the group is incomplete for too long: then the
        hosts of those that are there are given back."""
        meeting, deadline_s = self._meeting, self._group.formation_s
        group = joined(meeting, self._say, deadline_s, self._task_folder)
        try:
            self._membership, formation = await while_it_lives.enter_async_context(group)
        except IncompleteError as error:
            raise RunError(str(error)) from error
        except OSError as error:
            raise RunError(f"the group's port: {error}") from error
        self._journal.progress("group_formed", epoch=formation.epoch, rank=self._meeting.place.rank)
        return EngineMember(
            rank=self._meeting.place.rank,
            nodes=self._group.members,
            master_address=formation.master_address,
            master_port=formation.master_port,
        )

    async def lost(self) -> str:
        """Returns why the formation has ended."""
        assert self._membership is not None  # noqa: S101  (after `meet`)
        return await asyncio.shield(self._membership.lost)

    async def out_of_rotation(self) -> None:
        """Returns once rank 0 is to finish its requests, because another member is to end."""
        assert self._membership is not None  # noqa: S101  (after `meet`)
        await self._membership.out_of_rotation()

    async def leave(self, timeout_s: float) -> None:
        """Has rank 0 finish the group's requests, and returns once it has."""
        if self._membership is not None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._membership.leave(), timeout_s)

    def _say(self, sentence: str) -> None:
        self._journal.progress("group", said=sentence)


def member_of(
    group: Group | None, environment: Mapping[str, str], journal: Journal
) -> GroupMember | None:
    """None for a replica on one host. Raises InputError if the scheduler has not told where the
    members meet."""
    if group is None:
        return None
    try:
        meeting = read_meeting(group, environment)
    except ValueError as error:
        raise InputError(str(error)) from error
    return GroupMember(group, meeting, task_folder(environment), journal)
