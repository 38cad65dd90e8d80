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
FAILED_REPLICAS_MAX = 5  # one or two can be a node's bad moment
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
    """Raises HostError with the last thing seen when the deadline passes."""
    started = time.monotonic()
    passing, index = dict.fromkeys(DOORS, 0), dict.fromkeys(DOORS, 0)
    while short := [door for door in DOORS if passing[door] < wanted]:
        if time.monotonic() - started > gate.deadline_s:
            raise HostError(
                f"model {gate.model}: not ready after {gate.deadline_s:.0f} s: {_seen(gate)}\n"
                f"fix: slipway logs {gate.job_id}, then slipway up again"
            )
        say(f"model {gate.model}: {min(passing.values())} of {wanted} replicas; {_seen(gate)}")
        door = short[0]
        path = f"/v1/health/service/{gate.job_id}-{door}?passing=1"
        healthy, index[door] = gate.consul.watch(path, index[door], PROGRESS_INTERVAL_S)
        passing[door] = len(healthy)
    say(f"model {gate.model}: {wanted} replicas answer, {time.monotonic() - started:.0f} s")


def _count(gate: Gate, job_id: str) -> int:
    job = gate.nomad.get(f"/v1/job/{job_id}")
    return int(job["TaskGroups"][0]["Count"])


def _seen(gate: Gate) -> str:
    """What the job's replicas are doing, or why none could be placed.

    Raises HostError when one replica after another failed: waiting longer brings nothing.
    """
    allocations: list[dict[str, Any]] = gate.nomad.get(f"/v1/job/{gate.job_id}/allocations")
    if not allocations:
        return _placement_failure(gate)
    failed = [each for each in allocations if each["ClientStatus"] == "failed"]
    if len(failed) >= FAILED_REPLICAS_MAX:
        newest = max(failed, key=lambda allocation: allocation["CreateIndex"])
        raise HostError(
            f"model {gate.model}: {len(failed)} replicas failed, the last on"
            f" {_newest_event(newest)}\nfix: slipway logs {gate.job_id}"
        )
    wanted = [each for each in allocations if each["DesiredStatus"] == "run"]
    return "; ".join(sorted(_newest_event(allocation) for allocation in wanted))


def _newest_event(allocation: dict[str, Any]) -> str:
    states = allocation.get("TaskStates") or {}
    running = [f"{name} {state['State']}" for name, state in sorted(states.items())]
    events = [event for state in states.values() for event in state.get("Events") or []]
    newest = max(events, key=lambda event: event["Time"], default=None)
    said = newest["DisplayMessage"] if newest else allocation["ClientStatus"]
    return f"{allocation['NodeName']}: {', '.join(running) or 'pending'} ({said})"


def _placement_failure(gate: Gate) -> str:
    for evaluation in gate.nomad.get(f"/v1/job/{gate.job_id}/evaluations"):
        for group, failure in (evaluation.get("FailedTGAllocs") or {}).items():
            exhausted = failure.get("DimensionExhausted") or {}
            filtered = failure.get("ConstraintFiltered") or {}
            reasons = ", ".join([*exhausted, *filtered]) or "no node in the pool"
            return f"group {group} cannot be placed: {reasons}"
    return "waiting for Nomad to place it"


def main(arguments: list[str]) -> None:
    if arguments != ["apply"]:
        raise InputError("usage: model_ready.py apply")
    apply(read_document(), read_secrets())


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
