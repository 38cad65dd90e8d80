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
    is_reduced,
    members_of,
    reduced,
    restored,
    resumed,
    services,
    unanswered,
)
from gates.replica_exchange import GivenUpError, OldJob, Seen, next_old_job
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


def test_a_group_answers_by_its_first_member_alone() -> None:
    allocations = [member(index) for index in range(4)]
    assert unanswered(allocations, {"id-0"}, 2) == allocations[2:]
    assert unanswered(allocations, {"id-1", "id-3"}, 2) == allocations
    assert unanswered(allocations, {"id-0", "id-2"}, 2) == []
    assert unanswered(allocations, {"id-0"}, 1) == allocations[1:]


def test_a_job_says_how_many_members_a_replica_has() -> None:
    assert members_of({"Meta": {"slipway_members": "2"}}) == 2
    assert members_of({"Meta": None}) == 1


def test_services_of_a_task_are_the_jobs_too() -> None:
    group = {"Services": [{"Name": "a-member"}], "Tasks": [{"Services": [{"Name": "a-openai"}]}]}
    assert services({"TaskGroups": [group]}) == {"a-member", "a-openai"}
