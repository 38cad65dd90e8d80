"""One job of a model: what Nomad says of its replicas, and the count it is given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from http_json import Api, ApiError

JsonObject = dict[str, Any]

# Under this key of a reduced job's scaling policy stand its count and scaling as they were, as
# text: Nomad makes 3.0 of a 3. The autoscaler does not read the policy meanwhile: it is off.
BEFORE = "slipway_before"


@dataclass(frozen=True)
class ModelJob:
    """A job of one group."""

    id: str
    nomad: Api

    def document(self) -> JsonObject:
        found: JsonObject = self.nomad.get(f"/v1/job/{self.id}")
        return found

    def serves_since(self) -> float:
        """Orders jobs by how long they have served: the index at which the oldest of the replicas
        that shall run was made, or had been when the first of them was taken away. A job's own
        index is no age: one that was stopped and is taken up again keeps it."""
        noted = _note(group_of(self.document())).get("ServesSince")
        if noted is not None:
            return float(noted)
        replicas = placed(self.allocations())
        return min((float(each["CreateIndex"]) for each in replicas), default=math.inf)

    def count(self) -> int:
        return int(group_of(self.document())["Count"])

    def count_before(self) -> int:
        """The count it had before replicas were taken away."""
        group = group_of(self.document())
        return int(_note(group).get("Count", group["Count"]))

    def taken_up_again(self) -> bool:
        """Whether it had been stopped, and nothing has changed it since it was registered anew."""
        versions = self.nomad.get(f"/v1/job/{self.id}/versions")["Versions"]
        _newest, *older = sorted(versions, key=itemgetter("Version"), reverse=True)
        return bool(older) and bool(older[0]["Stop"])

    def allocations(self) -> list[JsonObject]:
        found: list[JsonObject] = self.nomad.get(f"/v1/job/{self.id}/allocations")
        return found

    def scale(self, count: int, message: str) -> None:
        """Within the bounds of the scaling policy, which stays in force."""
        target = {"Group": group_of(self.document())["Name"]}
        body = {"Count": count, "Target": target, "Message": message}
        self.nomad.put(f"/v1/job/{self.id}/scale", body)

    def reduce_to(self, count: int) -> None:
        """Take replicas away, below the minimum if need be; the autoscaler leaves it alone then."""
        since = self.serves_since()
        self._change(lambda document: reduced(document, count, since))

    def restore(self) -> None:
        """Undo `reduce_to`: the count and the scaling as they were."""
        self._change(restored)

    def resume(self) -> None:
        """Begin anew after a change that was given up: its minimum, and its scaling in force."""
        self._change(resumed)

    def _change(self, change: Callable[[JsonObject], JsonObject]) -> None:
        """Register the changed document; once more when something else changed the job meanwhile,
        for Nomad refuses what was made of an older one."""
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
    """A job with fewer replicas, its scaling off, and a note of both as they were.

    Nothing of a task changes, so Nomad leaves the replicas that stay alone.
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
    return _with_group(document, {**group, "Count": count, "Scaling": off})


def restored(document: JsonObject) -> JsonObject:
    """The job before it was reduced; the same job when it was not."""
    group = group_of(document)
    before = _note(group)
    return _with_group(
        document, group | {key: before[key] for key in ("Count", "Scaling") if key in before}
    )


def resumed(document: JsonObject) -> JsonObject:
    """`restored`, at the minimum: what it had then is not what the model has now."""
    if not is_reduced(document):
        return document
    group = group_of(restored(document))
    return _with_group(document, {**group, "Count": group["Scaling"]["Min"]})


def is_reduced(document: JsonObject) -> bool:
    return bool(_note(group_of(document)))


def group_of(document: JsonObject) -> JsonObject:
    group: JsonObject = document["TaskGroups"][0]
    return group


def services(document: JsonObject) -> set[str]:
    """The Consul services its replicas register as."""
    return {service["Name"] for service in group_of(document).get("Services") or []}


def placed(allocations: list[JsonObject]) -> list[JsonObject]:
    """Replicas that have a node and shall run."""
    return [each for each in allocations if each["DesiredStatus"] == "run"]


def leaving(allocations: list[JsonObject]) -> list[JsonObject]:
    """Replicas that end, and still hold their room."""
    return [
        each
        for each in allocations
        if each["DesiredStatus"] != "run" and each["ClientStatus"] in ("pending", "running")
    ]


def restarts(allocation: JsonObject) -> int:
    states = (allocation.get("TaskStates") or {}).values()
    return max((int(state["Restarts"]) for state in states), default=0)


def newest_event(allocation: JsonObject) -> str:
    states = allocation.get("TaskStates") or {}
    running = [f"{name} {state['State']}" for name, state in sorted(states.items())]
    events = [event for state in states.values() for event in state.get("Events") or []]
    newest = max(events, key=lambda event: event["Time"], default=None)
    said = newest["DisplayMessage"] if newest else allocation["ClientStatus"]
    return f"{allocation['NodeName']}: {', '.join(running) or 'pending'} ({said})"


def no_room(queued: int, group: str, evaluations: list[JsonObject]) -> str:
    """Why replicas wait for a place; empty when all have one."""
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
