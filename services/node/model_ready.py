"""Wait until every replica of a model's new job answers; the gate before its route moves.

    model_ready.py apply        document in SLIPWAY_DOCUMENT, tokens as JSON on standard input

A new spec is a new job beside the old one. It first takes over the old one's current count (the
autoscaler may have moved it), then this program waits until that many replicas pass their checks
in Consul. Every ten seconds it prints the last thing seen. Exit 1 when the deadline passes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from document import read_document, read_secrets
from errors import HostError, InputError, exit_code
from http_json import Api
from waiting import say

PROGRESS_INTERVAL_S = 10
RESTARTS_MAX = 3  # one or two can be a moment's trouble
NO_ROOM_MAX_S = 90  # a replica that leaves may make room meanwhile
DOORS = ("openai", "grpc")


@dataclass(frozen=True)
class Gate:
    model: str
    job_id: str
    group: str
    max_replicas: int
    deadline_s: float
    nomad: Api
    consul: Api


def apply(document: dict[str, Any], secrets: dict[str, Any]) -> None:
    gate = Gate(
        model=document["model"],
        job_id=document["job_id"],
        group=document["group"],
        max_replicas=document["max_replicas"],
        deadline_s=document["deadline_s"],
        nomad=Api(document["nomad"], {"X-Nomad-Token": secrets["nomad_token"]}),
        consul=Api(document["consul"], {"X-Consul-Token": secrets["consul_token"]}),
    )
    wait_for_replicas(gate, take_over_count(gate))


def take_over_count(gate: Gate) -> int:
    """Scale the new job to the count of the model's other jobs; returns its count."""
    count = _count(gate, gate.job_id)
    for job_id in other_jobs(gate):
        count = max(count, min(_count(gate, job_id), gate.max_replicas))
    if count > _count(gate, gate.job_id):
        gate.nomad.put(
            f"/v1/job/{gate.job_id}/scale",
            {
                "Count": count,
                "Target": {"Group": gate.group},
                "Message": "takes over the count of the previous spec",
            },
        )
    return count


def other_jobs(gate: Gate) -> Iterator[str]:
    """Running jobs of the same model with another spec."""
    for job in gate.nomad.get("/v1/jobs?meta=true"):
        meta = job.get("Meta") or {}
        if (
            meta.get("slipway_model") == gate.model
            and job["ID"] != gate.job_id
            and job["Status"] == "running"
        ):
            yield job["ID"]


def wait_for_replicas(gate: Gate, wanted: int) -> None:
    """Raises HostError with the last thing seen when it is over: the deadline has passed, the
    replicas end as often as they start, or there has been no room for them for a while."""
    started = time.monotonic()
    passing, index = dict.fromkeys(DOORS, 0), dict.fromkeys(DOORS, 0)
    placed_s = started
    while short := [door for door in DOORS if passing[door] < wanted]:
        now = time.monotonic()
        allocations = _wanted_allocations(gate)
        no_room = _placement_failure(gate)
        placed_s = placed_s if no_room else now
        seen = no_room or "; ".join(sorted(_newest_event(each) for each in allocations))
        if now - started > gate.deadline_s:
            raise _given_up(gate, f"not ready after {gate.deadline_s:.0f} s: {seen}")
        if now - placed_s > NO_ROOM_MAX_S:
            raise _given_up(gate, f"{no_room}; the replicas of the previous spec go on serving")
        if failing := [each for each in allocations if _restarts(each) >= RESTARTS_MAX]:
            raise _given_up(gate, f"it ends as often as it starts: {_last_end(failing[0])}")
        say(f"model {gate.model}: {min(passing.values())} of {wanted} replicas; {seen}")
        door = short[0]
        path = f"/v1/health/service/{gate.job_id}-{door}?passing=1"
        healthy, index[door] = gate.consul.watch(path, index[door], PROGRESS_INTERVAL_S)
        passing[door] = len(healthy)
    say(f"model {gate.model}: {wanted} replicas answer, {time.monotonic() - started:.0f} s")


def _given_up(gate: Gate, reason: str) -> HostError:
    return HostError(
        f"model {gate.model}: {reason}\nfix: slipway logs {gate.job_id}, change the model's file,"
        " then slipway up"
    )


def _count(gate: Gate, job_id: str) -> int:
    job = gate.nomad.get(f"/v1/job/{job_id}")
    return int(job["TaskGroups"][0]["Count"])


def _wanted_allocations(gate: Gate) -> list[dict[str, Any]]:
    allocations: list[dict[str, Any]] = gate.nomad.get(f"/v1/job/{gate.job_id}/allocations")
    return [each for each in allocations if each["DesiredStatus"] == "run"]


def _restarts(allocation: dict[str, Any]) -> int:
    states = (allocation.get("TaskStates") or {}).values()
    return max((int(state["Restarts"]) for state in states), default=0)


def _last_end(allocation: dict[str, Any]) -> str:
    states = (allocation.get("TaskStates") or {}).values()
    ends = [
        event
        for state in states
        for event in state.get("Events") or []
        if event["Type"] == "Terminated"
    ]
    newest = max(ends, key=lambda event: event["Time"], default=None)
    return newest["DisplayMessage"] if newest else _newest_event(allocation)


def _newest_event(allocation: dict[str, Any]) -> str:
    states = allocation.get("TaskStates") or {}
    running = [f"{name} {state['State']}" for name, state in sorted(states.items())]
    events = [event for state in states.values() for event in state.get("Events") or []]
    newest = max(events, key=lambda event: event["Time"], default=None)
    said = newest["DisplayMessage"] if newest else allocation["ClientStatus"]
    return f"{allocation['NodeName']}: {', '.join(running) or 'pending'} ({said})"


def _placement_failure(gate: Gate) -> str:
    """Why replicas wait for a place; empty when all have one."""
    summary = gate.nomad.get(f"/v1/job/{gate.job_id}/summary")["Summary"]
    waiting = int((summary.get(gate.group) or {}).get("Queued", 0))
    if not waiting:
        return ""
    for evaluation in gate.nomad.get(f"/v1/job/{gate.job_id}/evaluations"):
        failure = (evaluation.get("FailedTGAllocs") or {}).get(gate.group)
        if failure:
            reasons = [
                *(failure.get("DimensionExhausted") or {}),
                *(failure.get("ConstraintFiltered") or {}),
            ]
            why = ", ".join(reasons) or "no node in the pool"
            return f"no room for {waiting} of its replicas ({why})"
    return ""


def main(arguments: list[str]) -> None:
    if arguments != ["apply"]:
        raise InputError("usage: model_ready.py apply")
    apply(read_document(), read_secrets())


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
