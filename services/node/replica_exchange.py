"""Bring up a model's replicas, taking those of other specs away one by one where room is short.

The new job asks for all its replicas at once and Nomad places those that find room. Whenever all
placed ones answer and the rest waits for room, one replica of a lending job goes: it leaves Consul,
drains and ends, and Nomad places one more in its room. With no lender this is plain waiting.

Nothing is remembered here that Nomad does not know: a run that was killed is continued by the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from errors import HostError
from http_json import Api, ApiError
from model_job import (
    ModelJob,
    group_of,
    leaving,
    newest_event,
    no_room,
    placed,
    restarts,
)
from task_failure import failing_task, last_end, last_words
from waiting import say

PROGRESS_INTERVAL_S = 10
LOOK_INTERVAL_S = 2  # one query is waited for; what ends again and again shows in another
RETRY_INTERVAL_S = 5  # an election takes as long
RESTARTS_MAX = 3  # one or two can be a moment's trouble
NO_ROOM_MAX_S = 90  # a replica that leaves may make room meanwhile
DOORS = ("openai", "grpc")


class GivenUpError(HostError):
    """The replicas do not come up. `for_room`: because there is no room for them. `words`: the
    last lines of the task that ends."""

    def __init__(self, reason: str, *, for_room: bool = False, words: str = "") -> None:
        super().__init__(reason)
        self.for_room = for_room
        self.words = words


@dataclass(frozen=True)
class Lender:
    """A job that may lose replicas: how many it asks for, how many have a node, how many end."""

    count: int
    placed: int
    leaving: int = 0


@dataclass(frozen=True)
class Seen:
    """One look at both sides. `awaited`: as many must be placed before one more is taken."""

    wanted: int
    placed: int
    ready: int
    lenders: tuple[Lender, ...] = ()  # newest first
    no_room: str = ""
    awaited: int = 0

    @property
    def done(self) -> bool:
        return self.ready >= self.wanted

    @property
    def room_is_coming(self) -> bool:
        return any(lender.leaving for lender in self.lenders)

    @property
    def stuck(self) -> bool:
        """Only room is missing. With lenders, what still loads will let one more of them go."""
        loads = bool(self.lenders) and self.ready < self.placed
        return bool(self.no_room) and not self.room_is_coming and not loads


def next_lender(seen: Seen) -> int | None:
    """The position of the job that loses a replica now; None: wait.

    The newest first: it has proven the least. Never so many that fewer than one below the wanted
    count could answer, and not before the room of the last one is in use.
    """
    if not seen.stuck or seen.placed < seen.awaited:
        return None
    if seen.ready + sum(lender.placed for lender in seen.lenders) < seen.wanted:
        return None
    return next((at for at, lender in enumerate(seen.lenders) if lender.count), None)


@dataclass(frozen=True)
class View:
    """What both clusters say at one moment. `news`: the query whose next change matters."""

    seen: Seen
    unready: list[dict[str, Any]]  # allocations
    news: tuple[Api, str, int]

    def describe(self) -> str:
        waiting = "; ".join(sorted(newest_event(each) for each in self.unready))
        return "; ".join(filter(None, (self.seen.no_room, waiting))) or "waits for Nomad"


@dataclass
class Exchange:
    """One job that comes up, and the jobs it may take replicas from."""

    model: str
    job: ModelJob
    service: str  # its replicas are `<service>-openai` and `<service>-grpc` in Consul
    wanted: int
    lenders: Sequence[ModelJob]  # newest first
    deadline_s: float  # for the first replicas, and anew after each that was taken away
    consul: Api
    _awaited: int = field(default=0, init=False)
    _patient_s: float = field(default=0, init=False)  # since when the deadline counts
    _room_s: float = field(default=0, init=False)  # when there was room, or some was coming
    _said: tuple[str, float] = field(default=("", 0), init=False)  # the last line, and when

    def run(self) -> None:
        """Raises GivenUpError with the last thing seen when it is over: the deadline has passed,
        the replicas end as often as they start, or there has been no room for a while."""
        started = self._patient_s = self._room_s = time.monotonic()
        while True:
            try:
                if self._step():
                    break
            except ApiError as error:
                self._outlast(error)
        took_s = time.monotonic() - started
        say(f"model {self.model}: {self.wanted} replicas of {self.job.id} answer, {took_s:.0f} s")

    def _step(self) -> bool:
        """One look; unless all answer, one replica is taken away or news are waited for."""
        view = self._look()
        now, seen = time.monotonic(), view.seen
        if seen.done:
            return True
        at = next_lender(seen)
        if at is not None:
            self._take_from(self.lenders[at], seen.lenders[at])
            self._awaited = seen.placed + min(1, seen.lenders[at].placed)
            self._patient_s = self._room_s = now
            return False
        if not seen.stuck:
            self._room_s = now
        self._give_up_in_time(view, now)
        self._report(
            f"model {self.model}: {seen.ready} of {seen.wanted} replicas of {self.job.id}; "
            f"{view.describe()}",
            now,
        )
        api, path, index = view.news
        api.watch(path, index, LOOK_INTERVAL_S)
        return False

    def _report(self, line: str, now: float) -> None:
        """A line that was said is only repeated to show that it goes on."""
        said, said_s = self._said
        if line != said or now - said_s >= PROGRESS_INTERVAL_S:
            say(line)
            self._said = line, now

    def _outlast(self, error: ApiError) -> None:
        """A cluster that elects a leader, or an agent that starts again, answers soon."""
        self._give_up_at_the_deadline(str(error))
        self._room_s = time.monotonic()  # nothing gets a place meanwhile
        say(f"model {self.model}: {error}")
        time.sleep(RETRY_INTERVAL_S)  # nothing tells when it answers again

    def _give_up_in_time(self, view: View, now: float) -> None:
        self._give_up_at_the_deadline(view.describe())
        if now - self._room_s > NO_ROOM_MAX_S:
            raise GivenUpError(view.seen.no_room, for_room=True)
        if failing := [each for each in view.unready if restarts(each) >= RESTARTS_MAX]:
            raise _ends_again(failing[0], self.job.nomad)

    def _give_up_at_the_deadline(self, seen_last: str) -> None:
        if time.monotonic() - self._patient_s > self.deadline_s:
            raise GivenUpError(f"not ready after {self.deadline_s:.0f} s: {seen_last}") from None

    def _take_from(self, job: ModelJob, lender: Lender) -> None:
        say(f"model {self.model}: a replica of {job.id} makes room")
        job.reduce_to(max(lender.placed - 1, 0))

    def _look(self) -> View:
        nomad, path = self.job.nomad, f"/v1/job/{self.job.id}/summary"
        summary, index = nomad.watch(path, 0, 1)
        group = group_of(self.job.document())
        queued = int((summary["Summary"].get(group["Name"]) or {}).get("Queued", 0))
        running = placed(self.job.allocations())
        doors = {door: self._passing(door) for door in DOORS}
        unready = [
            each for each in running if not all(each["ID"] in ids for ids, _ in doors.values())
        ]
        evaluations = nomad.get(f"/v1/job/{self.job.id}/evaluations") if queued else []
        news = (nomad, path, index)
        if unready:
            news = min(doors.values(), key=lambda answer: len(answer[0]))[1]
        seen = Seen(
            wanted=min(self.wanted, group["Count"]),
            placed=len(running),
            ready=len(running) - len(unready),
            lenders=tuple(_lender(job) for job in self.lenders),
            no_room=no_room(queued, group["Name"], evaluations),
            awaited=self._awaited,
        )
        return View(seen, unready, news)

    def _passing(self, door: str) -> tuple[set[str], tuple[Api, str, int]]:
        """The allocations that answer on a door; jobs of several specs may share the service."""
        path = f"/v1/health/service/{self.service}-{door}?passing=1"
        entries, index = self.consul.watch(path, 0, 1)
        return registered(entries), (self.consul, path, index)


def registered(entries: list[dict[str, Any]]) -> set[str]:
    """The allocations behind the entries of a service in Consul."""
    return {(entry["Service"]["Meta"] or {}).get("allocation", "") for entry in entries}


def _ends_again(allocation: dict[str, Any], nomad: Api) -> GivenUpError:
    task = failing_task(allocation)
    return GivenUpError(
        f"task {task} ends as often as it starts: {last_end(allocation, task)}",
        words=last_words(allocation, task, nomad),
    )


def _lender(job: ModelJob) -> Lender:
    allocations = job.allocations()
    return Lender(
        count=job.count(), placed=len(placed(allocations)), leaving=len(leaving(allocations))
    )
