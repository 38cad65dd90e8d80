"""Bring up a model's replicas, removing those of other specs one by one where room is short.

The new job asks for all its replicas at once, and Nomad places those that fit. Whenever all placed
replicas answer and the rest wait for room, one replica of an old job is removed: it leaves Consul,
drains and stops, and Nomad places a new replica in its room. Without an old job this only waits.

No old replica goes before every Envoy knows the new ones that answer: one whose control plane
stands still would be left without any replica.

All state is in Nomad, so the next run continues one that was killed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from program.errors import HostError
from program.group.place import members_of
from program.http_json import Api, ApiError
from program.waiting import say

from gates.gateway import Gateway
from gates.member_hosts import ADMITTED, asks_for_admission, free_hosts
from gates.model_job import (
    ModelJob,
    by_number,
    count_of,
    count_with,
    group_of,
    lacking,
    leaving,
    no_room,
    placed,
    whole,
)
from gates.task_failure import failing_task, last_end, last_words, newest_event, restarts

PROGRESS_INTERVAL_S = 10
LOOK_INTERVAL_S = 2  # only one query is watched; repeated failures show up in another
RETRY_INTERVAL_S = 5  # about as long as an election takes
GATEWAY_INTERVAL_S = 0.5
RESTARTS_MAX = 3  # one or two may be a temporary problem
NO_ROOM_MAX_S = 90  # a replica that leaves may make room meanwhile


class GivenUpError(HostError):
    """The replicas do not start. `for_room` is True if there is no room for them; `words` are the
    last lines of the failing task."""

    def __init__(self, reason: str, *, for_room: bool = False, words: str = "") -> None:
        super().__init__(reason)
        self.for_room = for_room
        self.words = words


@dataclass(frozen=True)
class OldJob:
    """A job that may lose replicas: how many it wants, how many are placed, how many allocations
    are stopping."""

    count: int
    placed: int
    leaving: int = 0


@dataclass(frozen=True)
class Seen:
    """The state of both sides at one moment, in replicas. One over several nodes is placed once all
    of its members are. `awaited` replicas must be placed before one more is removed."""

    wanted: int
    placed: int
    ready: int
    old_jobs: tuple[OldJob, ...] = ()  # newest first
    no_room: str = ""
    awaited: int = 0

    @property
    def done(self) -> bool:
        return self.ready >= self.wanted

    @property
    def room_is_coming(self) -> bool:
        return any(old_job.leaving for old_job in self.old_jobs)

    @property
    def stuck(self) -> bool:
        """Only room is missing. With old jobs, a replica that still loads will let another old one
        be removed."""
        loads = bool(self.old_jobs) and self.ready < self.placed
        return bool(self.no_room) and not self.room_is_coming and not loads


def next_old_job(seen: Seen) -> int | None:
    """The position of the job that loses a replica now; None: wait.

    The newest job loses replicas first, because it has proven itself least. At most one replica
    fewer than wanted may answer, and the next one is removed only once the room of the last is in
    use.
    """
    if not seen.stuck or seen.placed < seen.awaited:
        return None
    if seen.ready + sum(old_job.placed for old_job in seen.old_jobs) < seen.wanted:
        return None
    return next((at for at, old_job in enumerate(seen.old_jobs) if old_job.count), None)


@dataclass(frozen=True)
class View:
    """The state of both clusters at one moment. `news` is the query whose next change matters;
    `addresses` ("host:port") are those of the replicas that answer, by service."""

    seen: Seen
    addresses: dict[str, set[str]]
    unready: list[dict[str, Any]]  # allocations
    news: tuple[Api, str, int]
    lacking: str = ""  # which members have no place

    def describe(self) -> str:
        waiting = "; ".join(sorted(newest_event(each) for each in self.unready))
        known = (self.seen.no_room, self.lacking, waiting)
        return "; ".join(filter(None, known)) or "waits for Nomad"


@dataclass
class Exchange:
    """One starting job, and the jobs it may take replicas from."""

    model: str
    job: ModelJob
    services: Sequence[str]  # in Consul; a replica answers when it passes all their checks
    wanted: int
    old_jobs: Sequence[ModelJob]  # newest first
    deadline_s: float  # for the first replicas, and again after each removal
    consul: Api
    gateway: Gateway
    _awaited: int = field(default=0, init=False)
    _waiting_since_s: float = field(default=0, init=False)  # the deadline counts from here
    _room_s: float = field(default=0, init=False)  # when there last was room, or some was coming
    _said: tuple[str, float] = field(default=("", 0), init=False)  # the last line, and when

    def run(self) -> None:
        """Raises GivenUpError with the last state seen if the deadline has passed, replicas fail as
        often as they start, or there has been no room for a while."""
        started = self._waiting_since_s = self._room_s = time.monotonic()
        while True:
            try:
                if self._step():
                    break
            except ApiError as error:
                self._outlast(error)
        took_s = time.monotonic() - started
        say(f"model {self.model}: {self.wanted} replicas of {self.job.id} answer, {took_s:.0f} s")

    def _step(self) -> bool:
        """One step: unless all replicas answer, remove an old one or wait for a change."""
        view = self._look()
        now, seen = time.monotonic(), view.seen
        at = None if seen.done else next_old_job(seen)
        if at is not None and (closed := self._closed_hosts(self.old_jobs[at])):
            at, view = None, replace(view, lacking=closed)
        if (seen.done or at is not None) and self._waits_for_the_gateway(view, now):
            return False
        if seen.done:
            return True
        if at is not None:
            self._take_from(self.old_jobs[at])
            self._awaited = seen.placed + min(1, seen.old_jobs[at].placed)
            self._waiting_since_s = self._room_s = now
            return False
        if not seen.stuck or (ADMITTED in seen.no_room and not self.old_jobs):
            self._room_s = now  # hosts that are being measured for the first time take long
        self._give_up_in_time(view, now)
        self._report(
            f"model {self.model}: {seen.ready} of {seen.wanted} replicas of {self.job.id}; "
            f"{view.describe()}",
            now,
        )
        api, path, index = view.news
        api.watch(path, index, LOOK_INTERVAL_S)
        return False

    def _waits_for_the_gateway(self, view: View, now: float) -> bool:
        """Whether old replicas stay because an Envoy does not know the new ones."""
        unknown = self.gateway.unknown_replicas(view.addresses) if self.old_jobs else None
        if unknown is None:
            return False
        self._room_s = now
        self._give_up_at_the_deadline(unknown)
        self._report(f"model {self.model}: {unknown}", now)
        time.sleep(GATEWAY_INTERVAL_S)  # a control plane's status can only be polled
        return True

    def _report(self, line: str, now: float) -> None:
        """Prints a line, and repeats an unchanged one only to show progress."""
        said, said_s = self._said
        if line != said or now - said_s >= PROGRESS_INTERVAL_S:
            say(line)
            self._said = line, now

    def _outlast(self, error: ApiError) -> None:
        """Wait out an election of a leader or a restart of an agent."""
        self._give_up_at_the_deadline(str(error))
        self._room_s = time.monotonic()  # nothing is placed meanwhile
        say(f"model {self.model}: {error}")
        time.sleep(RETRY_INTERVAL_S)  # no event tells when it answers again

    def _give_up_in_time(self, view: View, now: float) -> None:
        self._give_up_at_the_deadline(view.describe())
        if now - self._room_s > NO_ROOM_MAX_S:
            raise GivenUpError(view.seen.no_room, for_room=True)
        if failing := [each for each in view.unready if restarts(each) >= RESTARTS_MAX]:
            raise _ends_again(failing[0], self.job.nomad)

    def _give_up_at_the_deadline(self, seen_last: str) -> None:
        if time.monotonic() - self._waiting_since_s > self.deadline_s:
            raise GivenUpError(f"not ready after {self.deadline_s:.0f} s: {seen_last}") from None

    def _take_from(self, job: ModelJob) -> None:
        say(f"model {self.model}: a replica of {job.id} makes room")
        job.reduce_to(_count_without_one(job))

    def _closed_hosts(self, old: ModelJob) -> str:
        """Why no replica could follow the next one of the old job: too few hosts may take members.
        Empty if one could."""
        document = self.job.document()
        if not asks_for_admission(document):
            return ""
        stay = _count_without_one(old) * members_of(old.document())
        leaving = by_number(placed(old.allocations()))[stay:]
        free = free_hosts(self.job.nomad, document["NodePool"], {each["ID"] for each in leaving})
        members, begun = members_of(document), placed(self.job.allocations())
        lacks = members - (len(begun) - members * len(whole(begun, members)))
        if free >= lacks:
            return ""
        return (
            f"the next replica needs {lacks} more hosts whose fabric check has passed, and without"
            f" one of {old.id} {free} would be free: slipway hosts says why"
        )

    def _look(self) -> View:
        nomad, path = self.job.nomad, f"/v1/job/{self.job.id}/summary"
        summary, index = nomad.watch(path, 0, 1)
        document = self.job.document()
        members, count = members_of(document), count_of(document)
        running = placed(self.job.allocations())
        passing = [self._passing(service) for service in self.services]
        replicas = whole(running, members)
        # Rank 0 answers for all members of a replica.
        answer = [each for each in replicas if all(each[0]["ID"] in ids for ids, _ in passing)]
        ready = {member["ID"] for replica in answer for member in replica}
        unready = [each for each in running if each["ID"] not in ready]
        news = (nomad, path, index)
        if unready:
            news = min(passing, key=lambda found: len(found[0]))[1]
        seen = Seen(
            wanted=min(self.wanted, count),
            placed=len(replicas),
            ready=len(answer),
            old_jobs=tuple(_old_job(job) for job in self.old_jobs),
            no_room=self._no_room(document, summary["Summary"]),
            awaited=self._awaited,
        )
        addresses = {
            service: {at for allocation, at in found.items() if allocation in ready}
            for service, (found, _) in zip(self.services, passing, strict=True)
        }
        return View(seen, addresses, unready, news, lacking(running, members, count))

    def _no_room(self, document: dict[str, Any], summary: dict[str, Any]) -> str:
        name = group_of(document)["Name"]
        queued = int((summary.get(name) or {}).get("Queued", 0))
        path = f"/v1/job/{self.job.id}/evaluations"
        evaluations = self.job.nomad.get(path) if queued else []
        return no_room(-(-queued // members_of(document)), name, evaluations)

    def _passing(self, service: str) -> tuple[dict[str, str], tuple[Api, str, int]]:
        """The allocations that pass the service's checks, and their addresses; jobs of several
        specs may share it."""
        path = f"/v1/health/service/{service}?passing=1"
        entries, index = self.consul.watch(path, 0, 1)
        return registered(entries), (self.consul, path, index)


def registered(entries: list[dict[str, Any]]) -> dict[str, str]:
    """Allocation -> "host:port" of the entries of a service in Consul."""
    return {
        (service["Meta"] or {}).get("allocation", ""): f"{service['Address']}:{service['Port']}"
        for service in (entry["Service"] for entry in entries)
    }


def _count_without_one(job: ModelJob) -> int:
    """The job's count with one whole replica less."""
    members, running = members_of(job.document()), placed(job.allocations())
    return count_with(running, members, max(len(whole(running, members)) - 1, 0))


def _ends_again(allocation: dict[str, Any], nomad: Api) -> GivenUpError:
    task = failing_task(allocation)
    return GivenUpError(
        f"task {task} fails as often as it starts: {last_end(allocation, task)}",
        words=last_words(allocation, task, nomad),
    )


def _old_job(job: ModelJob) -> OldJob:
    allocations, document = job.allocations(), job.document()
    return OldJob(
        count=count_of(document),
        placed=len(whole(placed(allocations), members_of(document))),
        leaving=len(leaving(allocations)),
    )
