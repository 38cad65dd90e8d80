"""One member's part in its group: it finds the others, they begin together, and it learns when one
is gone.

Rank 0 listens on the control network, the others connect to it. Once all are there, rank 0 starts a
formation: it tells each the address and the port on which the engines meet, and an epoch. From then
on both sides of every connection beat. A connection that closes, or is silent for too long, ends
the formation for all: members end, and form again as new processes. A member of an earlier
formation has no way back into a later one: it knows neither its port nor its epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program.group.giving_back import give_back, given_back, patience_s
from program.group.links import BEAT_S, LOOK_S, MOST_BYTES, Link, LinkLostError, Message, Silence
from program.group.members import leaders, read_members
from program.group.place import Place

CONNECT_S = 2.0  # to a host that does not answer
AGAIN_S = 0.5
# Until Envoys have seen on rank 0's page that the group takes no more requests: three of their
# checks (services/xds/control_plane/resources/health_checks.py).
LEAVES_ROTATION_S = 3.0


class IncompleteError(Exception):
    """Not all members were there by the deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formation:
    """What all members of a group agree on for as long as it lives."""

    epoch: str
    master_address: str  # of rank 0, on the fabric
    master_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where this member meets the others of its job.

    `address` and `port` are on the control network, `fabric_address` is where its engine listens.
    `name` tells groups of different jobs apart.
    """

    name: str
    place: Place
    allocation: str
    address: str
    port: int
    fabric_address: str
    members_file: Path
    silence_s: float


class Membership:
    """Use as an async context manager; `form` once within it."""

    def __init__(self, meeting: Meeting, say: Callable[[str], None]) -> None:
        self._meeting = meeting
        self._say = say
        self._links: dict[int, Link] = {}
        self._silences: dict[int, Silence] = {}
        self._changed = asyncio.Event()
        self._formation: Formation | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Rank 0's: another member is asked to end, and waits for the requests of the group.
        self.another_leaves = asyncio.Event()

    @property
    def may_be_lost(self) -> bool:
        """Whether a member is gone, or has been quiet for longer than usual: a request that begins
        now may not come to its end."""
        return self.lost.done() or any(each.is_suspect for each in self._silences.values())

    @property
    def is_suspect(self) -> bool:
        """Whether requests should go elsewhere: a member may be lost, or is asked to end."""
        return self.may_be_lost or self.another_leaves.is_set()

    async def __aenter__(self) -> Membership:
        self._server = None
        if self._meeting.place.leads:
            self._server = await asyncio.start_server(
                self._met, self._meeting.address, self._meeting.port, limit=MOST_BYTES
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the connections, by which the others end."""
        for task in self._tasks:
            task.cancel()
        for link in self._links.values():
            link.close()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def form(self, deadline_s: float) -> Formation:
        """Waits for the others. Raises IncompleteError, which names those that are missing."""
        place = self._meeting.place
        begin = self._begin if place.leads else self._join
        try:
            self._formation = await asyncio.wait_for(begin(), deadline_s)
        except asyncio.TimeoutError:
            raise IncompleteError(
                f"group {place.group} is incomplete after {deadline_s:.0f} s: missing"
                f" {_ranks(self._missing())}"
            ) from None
        self._silences = {rank: Silence() for rank in self._links}
        self._keep(self._beat())
        return self._formation

    async def out_of_rotation(self) -> None:
        """Returns once another member is asked to end and no Envoy sends requests any more."""
        await self.another_leaves.wait()
        await asyncio.sleep(LEAVES_ROTATION_S)

    async def leave(self) -> None:
        """Another rank than 0 asks the group to finish its requests; returns once rank 0 has ended
        it."""
        for link in self._links.values():
            link.send({"leaves": self._meeting.place.rank})
        await asyncio.wait([self.lost])

    def _missing(self) -> list[int]:
        place = self._meeting.place
        return [rank for rank in place.others if rank not in self._links] if place.leads else [0]

    # Rank 0

    async def _begin(self) -> Formation:
        place = self._meeting.place
        while self._missing():
            self._say(f"group {place.group} waits for {_ranks(self._missing())}")
            self._changed.clear()
            await self._changed.wait()
        address = self._meeting.fabric_address
        formation = Formation(
            epoch=secrets.token_hex(8), master_address=address, master_port=_free_port(address)
        )
        for link in self._links.values():
            link.send(
                {
                    "epoch": formation.epoch,
                    "master_address": formation.master_address,
                    "master_port": formation.master_port,
                }
            )
        return formation

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Someone connects: a member that this formation still lacks, or is refused. Hosts that
        have no member get no answer: the firewall lets in clients of replicas, too."""
        link = Link(reader, writer)
        if not self._has_member(writer.get_extra_info("peername")[0]):
            link.close()
            return
        try:
            hello = await asyncio.wait_for(link.receive(), CONNECT_S)
        except (LinkLostError, asyncio.TimeoutError):
            link.close()
            return
        rank = hello.get("rank")
        if (refusal := self._refusal(hello)) or not isinstance(rank, int):
            link.send({"refused": refusal})
            link.close()
            return
        if rank in self._links:  # its first process has died, and the kernel has not told yet
            self._links.pop(rank).close()
        self._take(rank, link)
        self._changed.set()

    def _has_member(self, address: str) -> bool:
        """A member that has just registered may not be in this host's file yet, and asks again."""
        return address in {each.address for each in read_members(self._meeting.members_file)}

    def _refusal(self, hello: Message) -> str:
        meeting = self._meeting
        if hello.get("name") != meeting.name or hello.get("size") != meeting.place.size:
            return f"this is {meeting.name}, of {meeting.place.size} members"
        if (
            hello.get("group") != meeting.place.group
            or hello.get("rank") not in meeting.place.others
        ):
            return f"this is group {meeting.place.group}"
        if self._formation is not None:
            return "the group has formed already"
        return ""

    # Other ranks

    async def _join(self) -> Formation:
        while True:
            for leader in leaders(read_members(self._meeting.members_file), self._meeting.place):
                formation = await self._ask(leader.address, leader.port)
                if formation is not None:
                    return formation
            await asyncio.sleep(AGAIN_S)

    async def _ask(self, address: str, port: int) -> Formation | None:
        """Waits with rank 0 until all are there; None if it is not there or does not want us."""
        meeting, place = self._meeting, self._meeting.place
        try:
            opened = asyncio.open_connection(
                address, port, limit=MOST_BYTES, local_addr=(meeting.address, 0)
            )
            link = Link(*await asyncio.wait_for(opened, CONNECT_S))
        except (OSError, asyncio.TimeoutError):
            return None
        self._say(f"rank {place.rank} of group {place.group} waits with rank 0 at {address}")
        hello = {"name": meeting.name, "group": place.group, "rank": place.rank}
        link.send({**hello, "size": place.size, "allocation": meeting.allocation})
        try:
            answer = await link.receive()
            formation = Formation(
                epoch=str(answer["epoch"]),
                master_address=str(answer["master_address"]),
                master_port=int(answer["master_port"]),
            )
        except (LinkLostError, KeyError, ValueError, TypeError):
            link.close()
            return None
        except asyncio.CancelledError:
            link.close()
            raise
        self._take(0, link)
        return formation

    # All

    def _take(self, rank: int, link: Link) -> None:
        self._links[rank] = link
        self._keep(self._listen(rank, link))

    async def _listen(self, rank: int, link: Link) -> None:
        try:
            while True:
                self._hear(rank, await link.receive())
        except LinkLostError as error:
            if self._links.get(rank) is not link:  # another process has taken its place
                return
            if self._formation is None:
                del self._links[rank]
                self._changed.set()
            else:
                self._lose(f"rank {rank} is gone: {error}")

    def _hear(self, rank: int, message: Message) -> None:
        formation = self._formation
        if formation is None:  # a member speaks first once it has heard of a formation
            return
        if message.get("leaves") is not None:
            self._say(f"rank {rank} is asked to end")
            self.another_leaves.set()
        elif message.get("beat") != formation.epoch:
            raise LinkLostError("a beat of another formation")
        self._silences[rank].heard()

    async def _beat(self) -> None:
        assert self._formation is not None  # noqa: S101  (only called once formed)
        clock = asyncio.get_running_loop().time
        next_beat_s = clock()
        while True:
            if clock() >= next_beat_s:
                for link in self._links.values():
                    link.send({"beat": self._formation.epoch})
                next_beat_s = clock() + BEAT_S
            await asyncio.sleep(LOOK_S)
            for rank, silence in self._silences.items():
                silence.look()
                if silence.quiet_for_s >= self._meeting.silence_s:
                    self._lose(f"rank {rank} is silent for {silence.quiet_for_s:.1f} s")

    def _lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))


@contextlib.asynccontextmanager
async def joined(
    meeting: Meeting, say: Callable[[str], None], deadline_s: float, task_folder: Path
) -> AsyncIterator[tuple[Membership, Formation]]:
    """A member whose group has formed.

    Raises IncompleteError if it has not after `deadline_s`, or up to half as much later, and for
    all further processes of the same allocation: its host is given back. Raises OSError if the
    member cannot listen.
    """
    if reason := given_back(task_folder, meeting.allocation):
        raise IncompleteError(f"this host is given back: {reason}")
    async with Membership(meeting, say) as membership:
        try:
            formation = await membership.form(patience_s(deadline_s))
        except IncompleteError as error:
            give_back(task_folder, meeting.allocation, str(error))
            raise
        yield membership, formation


def _free_port(address: str) -> int:
    """Another one for each formation."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _ranks(ranks: Iterable[int]) -> str:
    return ", ".join(f"rank {rank}" for rank in ranks)
