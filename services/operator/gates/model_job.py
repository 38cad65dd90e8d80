"""One job of a model: its replicas in Nomad, and its count.

Nomad counts allocations, of which a replica over several nodes has one on each (`members_of`).
Every count that is read or set here is one of replicas, so what Nomad gets is whole replicas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from program.document import JsonObject
from program.group.place import Place, index_of, members_of, place_of
from program.http_json import Api, ApiError

# The key in a reduced job's scaling policy that stores its original count and scaling, as text
# because Nomad turns 3 into 3.0. The policy is disabled meanwhile, so the autoscaler does not read
# it.
BEFORE = "slipway_before"

# The release of a job whose meta does not name one: adding meta would restart the replicas of every
# running job, and stable jobs are older than releases.
STABLE = "stable"


@dataclass(frozen=True)
class ModelJob:
    """A Nomad job with one group."""

    id: str
    nomad: Api

    def document(self) -> JsonObject:
        found: JsonObject = self.nomad.get(f"/v1/job/{self.id}")
        return found

    def serves_since(self) -> float:
        """Orders jobs by how long they have served: the index at which the oldest replica that
        should run was created, or was when the first one was removed. A job's own index does not
        work, because a job that was stopped and registered again keeps it."""
        noted = _note(group_of(self.document())).get("ServesSince")
        if noted is not None:
            return float(noted)
        replicas = placed(self.allocations())
        return min((float(each["CreateIndex"]) for each in replicas), default=math.inf)

    def count(self) -> int:
        return count_of(self.document())

    def count_before(self) -> int:
        """The count before replicas were removed."""
        return count_of(restored(self.document()))

    def taken_up_again(self) -> bool:
        """Whether the job had been stopped, and has not changed since it was registered again."""
        versions = self.nomad.get(f"/v1/job/{self.id}/versions")["Versions"]
        _newest, *older = sorted(versions, key=itemgetter("Version"), reverse=True)
        return bool(older) and bool(older[0]["Stop"])

    def allocations(self) -> list[JsonObject]:
        found: list[JsonObject] = self.nomad.get(f"/v1/job/{self.id}/allocations")
        return found

    def scale(self, count: int, message: str) -> None:
        """Set the count, unless it is set, within the bounds of the scaling policy, which stays
        enabled."""
        document = self.document()
        group, allocations = group_of(document), count * members_of(document)
        if allocations != group["Count"]:
            body = {"Count": allocations, "Target": {"Group": group["Name"]}, "Message": message}
            self.nomad.put(f"/v1/job/{self.id}/scale", body)

    def reduce_to(self, count: int) -> None:
        """Remove replicas, below the minimum if need be, with scaling disabled."""
        since = self.serves_since()
        self._change(lambda document: reduced(document, count, since))

    def restore(self) -> None:
        """Undo `reduce_to`: the count and the scaling as they were."""
        self._change(restored)

    def resume(self) -> None:
        """Start again after a change that was given up, at the minimum and with scaling enabled."""
        self._change(resumed)

    def _change(self, change: Callable[[JsonObject], JsonObject]) -> None:
        """Register the changed document. Retries if the job changed meanwhile, because Nomad
        refuses a change based on an older version."""
        while (changed := change(document := self.document())) != document:
            index = document["JobModifyIndex"]
            body = {"Job": changed, "EnforceIndex": True, "JobModifyIndex": index}
            try:
                self.nomad.post("/v1/jobs", body)
            except ApiError as error:
                if "job modify index" not in str(error):
                    raise
            else:
                return


def reduced(document: JsonObject, count: int, serves_since: float) -> JsonObject:
    """A job with fewer replicas, scaling disabled, and a note of the original count and scaling.

    No task changes, so Nomad does not touch the remaining replicas.
    """
    group = group_of(document)
    scaling = group["Scaling"]
    since = None if serves_since == math.inf else serves_since  # JSON has no infinity
    before = _note(group) or {
        "Count": group["Count"],
        "Scaling": scaling,
        "ServesSince": since,
    }
    off = {**scaling, "Enabled": False, "Min": 0, "Policy": {BEFORE: json.dumps(before)}}
    allocations = count * members_of(document)
    return _with_group(document, {**group, "Count": allocations, "Scaling": off})


def restored(document: JsonObject) -> JsonObject:
    """The job before it was reduced; the same job if it was not."""
    group = group_of(document)
    before = _note(group)
    return _with_group(
        document, group | {key: before[key] for key in ("Count", "Scaling") if key in before}
    )


def resumed(document: JsonObject) -> JsonObject:
    """`restored` at the minimum, because the earlier count may not fit the model's current load."""
    if not is_reduced(document):
        return document
    group = group_of(restored(document))
    return _with_group(document, {**group, "Count": group["Scaling"]["Min"]})


def model_and_release(job: JsonObject) -> tuple[str | None, str]:
    """The model and release in the meta of a job, or of its entry in a list."""
    meta = job.get("Meta") or {}
    return meta.get("slipway_model"), meta.get("slipway_release", STABLE)


def is_reduced(document: JsonObject) -> bool:
    return bool(_note(group_of(document)))


def count_of(document: JsonObject) -> int:
    """How many replicas the job wants. A count that somebody set between multiples is the next
    one: those members wait for the others."""
    return -(-int(group_of(document)["Count"]) // members_of(document))


def whole(allocations: list[JsonObject], members: int) -> list[list[JsonObject]]:
    """The replicas of which every member is among the allocations, each as its members by rank."""
    if members == 1:
        return [[each] for each in allocations]
    groups: dict[int, dict[int, JsonObject]] = {}
    for each in allocations:
        place = _place(each, members)
        groups.setdefault(place.group, {})[place.rank] = each
    return [
        [ranks[rank] for rank in range(members)]
        for _, ranks in sorted(groups.items())
        if len(ranks) == members
    ]


def count_with(allocations: list[JsonObject], members: int, replicas: int) -> int:
    """The smallest count with which so many of the whole replicas stay.

    Nomad ends those with the highest numbers, as many as there are above the count: where a lower
    one has no place, they are fewer than the count says, and belong to other replicas than it says.
    """
    if members == 1:
        return replicas
    numbered = by_number(allocations)
    counts = range(len(numbered) // members + 2)
    return next(
        (count for count in counts if len(whole(numbered[: count * members], members)) == replicas),
        replicas,
    )


def by_number(allocations: list[JsonObject]) -> list[JsonObject]:
    """Nomad ends the last ones first."""
    return sorted(allocations, key=lambda each: index_of(each["Name"]))


def lacking(allocations: list[JsonObject], members: int, count: int) -> str:
    """Which members of so many replicas have no allocation: "group 1 has no place for rank 0";
    empty for replicas on one node each."""
    if members == 1:
        return ""
    there = {_place(each, members) for each in allocations}
    missing: dict[int, list[str]] = {}
    for place in (place_of(index, members) for index in range(count * members)):
        if place not in there:
            missing.setdefault(place.group, []).append(str(place.rank))
    return "; ".join(
        f"group {group} has no place for rank {', '.join(ranks)}"
        for group, ranks in missing.items()
    )


def _place(allocation: JsonObject, members: int) -> Place:
    """By Nomad's number (services/program/group/place.py)."""
    return place_of(index_of(allocation["Name"]), members)


def group_of(document: JsonObject) -> JsonObject:
    group: JsonObject = document["TaskGroups"][0]
    return group


def services(document: JsonObject) -> set[str]:
    """The Consul services that its replicas register as."""
    group = group_of(document)
    registering = [group, *(group.get("Tasks") or [])]
    return {service["Name"] for each in registering for service in each.get("Services") or []}


def placed(allocations: list[JsonObject]) -> list[JsonObject]:
    """Allocations that have a node and should run."""
    return [each for each in allocations if each["DesiredStatus"] == "run"]


def leaving(allocations: list[JsonObject]) -> list[JsonObject]:
    """Allocations that are stopping but still hold their resources."""
    return [
        each
        for each in allocations
        if each["DesiredStatus"] != "run" and each["ClientStatus"] in ("pending", "running")
    ]


def no_room(queued: int, group: str, evaluations: list[JsonObject]) -> str:
    """Why so many replicas wait to be placed; empty if all are placed."""
    if not queued:
        return ""
    for evaluation in evaluations:
        failure = (evaluation.get("FailedTGAllocs") or {}).get(group)
        if failure:
            reasons = [
                *(failure.get("DimensionExhausted") or {}),
                *(failure.get("ConstraintFiltered") or {}),
            ]
            why = ", ".join(reasons) or "no node in the pool"
            return f"no room for {queued} of its replicas ({why})"
    return ""


def _note(group: JsonObject) -> JsonObject:
    policy = (group.get("Scaling") or {}).get("Policy") or {}
    note: JsonObject = json.loads(policy.get(BEFORE, "{}"))
    return note


def _with_group(document: JsonObject, group: JsonObject) -> JsonObject:
    return {**document, "TaskGroups": [group]}
