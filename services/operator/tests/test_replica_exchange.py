"""What the exchange of replicas decides, and what it writes into a job; without any agent."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from gates.model import Gate, capacity_hint, makes_room
from gates.model_job import (
    STABLE,
    ModelJob,
    count_of,
    count_with,
    is_reduced,
    lacking,
    reduced,
    restored,
    resumed,
    services,
    whole,
)
from gates.replica_exchange import GivenUpError, OldJob, Seen, next_old_job
from program.group.place import members_of
from program.http_json import Api

SERVICE = "model-m-all-openai"
FULL = "no room for 1 of its replicas (memory)"


@dataclass
class Pool:
    """Places for replicas, an old job that serves and a new one that asks for as many."""

    places: int
    old: int
    wanted: int = field(init=False)
    leaving: int = 0
    loading: int = 0
    ready: int = 0
    awaited: int = 0
    taken: int = 0

    def __post_init__(self) -> None:
        self.wanted = self.old

    @property
    def free(self) -> int:
        return self.places - self.old - self.leaving - self.loading - self.ready

    @property
    def seen(self) -> Seen:
        placed = self.loading + self.ready
        return Seen(
            wanted=self.wanted,
            placed=placed,
            ready=self.ready,
            old_jobs=(OldJob(count=self.old, placed=self.old, leaving=self.leaving),),
            no_room=FULL if placed < self.wanted and self.free <= 0 else "",
            awaited=self.awaited,
        )

    def decide(self) -> None:
        if next_old_job(self.seen) is not None:
            self.awaited = self.seen.placed + 1
            self.old, self.leaving, self.taken = self.old - 1, self.leaving + 1, self.taken + 1

    def something_happens(self, chance: random.Random) -> None:
        possible = []
        if self.free > 0 and self.seen.placed < self.wanted:
            possible.append(("loading", ""))
        if self.loading:
            possible.append(("ready", "loading"))
        if self.leaving:
            possible.append(("", "leaving"))
        more, fewer = chance.choice(possible)
        for name, change in ((more, 1), (fewer, -1)):
            if name:
                setattr(self, name, getattr(self, name) + change)


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("spare", range(7))
def test_at_most_one_replica_is_missing_at_any_moment_and_no_more_go_than_needed(
    count: int, spare: int
) -> None:
    for seed in range(20):
        chance = random.Random(seed)  # the same order of events every time
        pool = Pool(places=count + spare, old=count)
        while not pool.seen.done:
            pool.decide()
            assert pool.old + pool.ready >= count - 1
            pool.something_happens(chance)
        assert pool.taken == max(0, count - spare)


@dataclass
class Hosts:
    """Hosts for the members of replicas, as Nomad fills them: one after the other, by number."""

    hosts: int
    members: int
    old: int  # whole replicas
    wanted: int = field(init=False)
    leaving: int = 0  # members
    there: list[dict[str, str]] = field(default_factory=list)  # members of the new job
    ready: int = 0
    awaited: int = 0
    taken: int = 0

    def __post_init__(self) -> None:
        self.wanted = self.old

    @property
    def free(self) -> int:
        return self.hosts - self.old * self.members - self.leaving - len(self.there)

    @property
    def waiting(self) -> int:
        return self.wanted * self.members - len(self.there)

    @property
    def placed(self) -> int:
        return len(whole(self.there, self.members))

    @property
    def seen(self) -> Seen:
        return Seen(
            wanted=self.wanted,
            placed=self.placed,
            ready=self.ready,
            old_jobs=(OldJob(count=self.old, placed=self.old, leaving=self.leaving),),
            no_room=FULL if self.waiting and self.free <= 0 else "",
            awaited=self.awaited,
        )

    def decide(self) -> None:
        if next_old_job(self.seen) is not None:
            self.awaited, self.taken = self.placed + 1, self.taken + 1
            self.old, self.leaving = self.old - 1, self.leaving + self.members

    def something_happens(self, chance: random.Random) -> None:
        places = self.free > 0 and self.waiting > 0
        possible = [self._place] * places + [self._answer] * (self.ready < self.placed)
        chance.choice(possible + [self._end] * (self.leaving > 0))()

    def _place(self) -> None:
        self.there.append(member(len(self.there)))

    def _answer(self) -> None:
        self.ready += 1

    def _end(self) -> None:
        self.leaving -= 1


@pytest.mark.parametrize("members", range(1, 5))
@pytest.mark.parametrize("count", range(1, 5))
def test_groups_are_exchanged_whole_whatever_part_of_one_fits_beside_them(
    members: int, count: int
) -> None:
    for spare in range(2 * members + 1):
        for seed in range(10):
            chance = random.Random(seed)  # the same order of events every time
            pool = Hosts(hosts=count * members + spare, members=members, old=count)
            while not pool.seen.done:
                pool.decide()
                assert pool.old + pool.ready >= count - 1
                pool.something_happens(chance)
            assert pool.taken == max(0, count - spare // members)


WAITING = Seen(wanted=2, placed=1, ready=1, old_jobs=(OldJob(count=1, placed=1),), no_room=FULL)


@pytest.mark.parametrize(
    ("seen", "old_job"),
    [
        (WAITING, 0),
        (Seen(wanted=2, placed=1, ready=1, old_jobs=WAITING.old_jobs), None),
        (Seen(wanted=2, placed=1, ready=0, old_jobs=WAITING.old_jobs, no_room=FULL), None),
        (Seen(wanted=2, placed=0, ready=0, old_jobs=(OldJob(2, 2, 1),), no_room=FULL), None),
        (Seen(wanted=2, placed=0, ready=0, old_jobs=(OldJob(1, 1),), no_room=FULL), None),
        (
            Seen(wanted=2, placed=0, ready=0, old_jobs=(OldJob(2, 2),), no_room=FULL, awaited=1),
            None,
        ),
        (Seen(wanted=1, placed=0, ready=0, old_jobs=(OldJob(2, 1), OldJob(1, 1)), no_room=FULL), 0),
        (Seen(wanted=1, placed=0, ready=0, old_jobs=(OldJob(0, 0), OldJob(1, 1)), no_room=FULL), 1),
        (Seen(wanted=1, placed=0, ready=0, no_room=FULL), None),
    ],
    ids=[
        "all that have a place answer and one waits",
        "there is room",
        "one still loads",
        "room is coming",
        "one is missing already",
        "somebody else took the room",
        "a failed spec goes before the one that serves",
        "a job without replicas is passed over",
        "nobody lends",
    ],
)
def test_one_replica_goes_only_when_it_must_and_may(seen: Seen, old_job: int | None) -> None:
    assert next_old_job(seen) == old_job


SCALING = {"Enabled": True, "Min": 2, "Max": 4, "Policy": {"cooldown": "60s"}}
JOB: dict[str, Any] = {
    "ID": "model-m-0",
    "TaskGroups": [{"Name": "replica", "Count": 3, "Scaling": SCALING, "Tasks": [{"Name": "a"}]}],
}


def test_a_reduced_job_is_not_scaled_and_is_restored_exactly_however_often_it_was() -> None:
    once = reduced(JOB, 2, 7)
    (group,) = once["TaskGroups"]
    assert (group["Count"], group["Scaling"]["Enabled"], group["Scaling"]["Min"]) == (2, False, 0)
    assert group["Tasks"] == [{"Name": "a"}]
    assert is_reduced(once)
    assert restored(reduced(reduced(once, 1, 8), 0, math.inf)) == JOB
    assert restored(JOB) == JOB


def test_a_resumed_job_begins_at_its_minimum() -> None:
    (group,) = resumed(reduced(JOB, 0, math.inf))["TaskGroups"]
    assert group == {**JOB["TaskGroups"][0], "Count": 2}
    assert resumed(JOB) == JOB


class Jobs(Api):
    """Nomad's answers for jobs by ID."""

    def __init__(self, **jobs: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1")
        self._jobs = jobs

    def get(self, path: str) -> Any:
        return self._jobs[path.rpartition("/")[2]]


def registering(service: str, pool: str = "cpu") -> dict[str, Any]:
    services = [{"Name": f"{service}-{port}"} for port in ("openai", "grpc", "triton")]
    return {"NodePool": pool, "TaskGroups": [{"Services": services}]}


@pytest.mark.parametrize(
    ("surge", "old", "lends"),
    [
        (0, registering("model-m-all"), True),
        (0, registering("model-m-3f9c1a"), False),
        (0, registering("model-m-all", pool="other"), False),
        (None, registering("model-m-all"), False),
    ],
    ids=["the same name", "a name that clients still need", "another pool", "a full set beside"],
)
def test_a_job_gives_up_replicas_only_where_its_successor_takes_its_clients(
    surge: int | None, old: dict[str, Any], lends: bool
) -> None:
    api = Jobs(old=old, new=registering("model-m-all"))
    gate = Gate("m", STABLE, ModelJob("new", api), (SERVICE,), surge, 1, 4, 60, api, api, 1)
    assert makes_room(gate, ModelJob("old", api)) is lends


@pytest.mark.parametrize(
    ("surge", "error", "words"),
    [
        (None, GivenUpError(FULL, for_room=True), "With `surge: 0` for this model"),
        (0, GivenUpError(FULL, for_room=True), "turns on `surge: 0`"),
        (None, GivenUpError("it ends as often as it starts"), ""),
    ],
)
def test_the_reason_says_what_would_need_less_room(
    surge: int | None, error: GivenUpError, words: str
) -> None:
    api = Api("http://127.0.0.1:1")
    job = ModelJob("model-m-1", api)
    gate = Gate("m", STABLE, job, (SERVICE,), surge, 1, 4, 60, api, api, 1)
    said = capacity_hint(gate, [ModelJob("model-m-0", api)], error)
    assert words in said
    assert bool(words) is bool(said)


def member(index: int) -> dict[str, str]:
    return {"ID": f"id-{index}", "Name": f"model-a-3f9c1a.replica[{index}]"}


def test_a_replica_over_several_nodes_is_there_once_all_of_its_members_are() -> None:
    allocations = [member(index) for index in (3, 0, 2, 4)]
    assert whole(allocations, 2) == [[member(2), member(3)]]
    assert whole(allocations, 1) == [[each] for each in allocations]
    assert whole([*allocations, member(1)], 2) == [[member(0), member(1)], [member(2), member(3)]]


@pytest.mark.parametrize(
    ("indexes", "members", "stay", "count"),
    [
        ([0, 1, 2], 1, 2, 2),
        ([0, 1, 2, 3], 2, 1, 1),
        ([0, 1, 2, 3], 2, 0, 0),
        ([0, 1, 2, 3, 4], 2, 2, 2),  # the third has one member: its count is not kept
        ([0, 2, 3, 4, 5], 2, 1, 2),  # a count of 1 would leave 0 and 2
        ([0, 2, 3, 4, 5], 2, 2, 3),
        ([1, 2], 2, 0, 0),
    ],
)
def test_a_count_is_chosen_by_the_replicas_that_nomad_leaves_whole(
    indexes: list[int], members: int, stay: int, count: int
) -> None:
    there = [member(index) for index in indexes]
    assert count_with(there, members, stay) == count
    left = sorted(indexes)[: count * members]  # Nomad ends the highest
    assert len(whole([member(index) for index in left], members)) == stay


def test_the_members_that_have_no_place_are_named_by_group_and_rank() -> None:
    said = lacking([member(index) for index in (0, 1, 2, 7)], 3, 3)
    assert said == "group 1 has no place for rank 0, 1, 2; group 2 has no place for rank 0, 2"
    assert lacking([member(index) for index in range(6)], 3, 2) == ""
    assert lacking([], 1, 3) == ""


def test_a_job_says_how_many_members_a_replica_has() -> None:
    assert members_of({"Meta": {"slipway_members": "2"}}) == 2
    assert members_of({"Meta": None}) == 1


@pytest.mark.parametrize("members", [1, 2, 4])
def test_the_count_of_a_reduced_job_is_one_of_whole_replicas(members: int) -> None:
    group = JOB["TaskGroups"][0] | {"Count": 3 * members}
    job = JOB | {"Meta": {"slipway_members": str(members)}, "TaskGroups": [group]}
    assert count_of(job) == 3
    for count in range(3):
        fewer = reduced(job, count, 7)
        assert fewer["TaskGroups"][0]["Count"] == count * members
        assert count_of(fewer) == count
        assert restored(fewer) == job


def test_a_count_between_multiples_counts_the_replica_that_has_only_some_members() -> None:
    job = {"Meta": {"slipway_members": "2"}, "TaskGroups": [{"Count": 3}]}
    assert count_of(job) == 2


def test_services_of_a_task_are_the_jobs_too() -> None:
    group = {"Services": [{"Name": "a-member"}], "Tasks": [{"Services": [{"Name": "a-openai"}]}]}
    assert services({"TaskGroups": [group]}) == {"a-member", "a-openai"}
