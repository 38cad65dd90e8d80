"""States of things in Nomad, and the rows that show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cli.ui.observation import Observation
from cli.ui.page import (
    EndpointRow,
    JobRow,
    NodeRow,
    Notice,
    ReplicaRow,
    State,
    TargetRow,
    Tone,
)
from cli.ui.wording import ago

Document = Mapping[str, Any]

# Nomad's words for allocations, jobs and nodes.
_TONES = {
    "running": Tone.OK,
    "ready": Tone.OK,
    "complete": Tone.QUIET,
    "dead": Tone.QUIET,
    "initializing": Tone.WARN,
    "pending": Tone.WARN,
    "failed": Tone.BAD,
    "lost": Tone.BAD,
    "down": Tone.BAD,
    "disconnected": Tone.BAD,
    "unknown": Tone.BAD,
}


_HEALTHY, _NOT_HEALTHY = (
    State(word="healthy", tone=Tone.OK),
    State(word="not healthy", tone=Tone.BAD),
)
_UP, _DOWN = State(word="up", tone=Tone.OK), State(word="down", tone=Tone.BAD)


def replica_row(replica: Document) -> ReplicaRow:
    return ReplicaRow(
        id=f"replica-{replica['name']}-{replica['allocation'][:8]}",
        name=replica["name"],
        job=replica["job"],
        node=replica["node"],
        allocation=replica["allocation"],
        state=_state(replica["status"]),
        restarts=replica["restarts"],
        said=replica["said"],
    )


def node_row(node: Document, placed: int) -> NodeRow:
    state = _state(node["status"])
    if state.tone is Tone.OK and not node["eligible"]:
        state = State(word=state.word, tone=Tone.WARN)
    return NodeRow(
        id=f"node-{node['name']}-{node['address']}",
        name=node["name"],
        pool=node["pool"],
        address=node["address"],
        state=state,
        takes_work=node["eligible"],
        replicas=placed,
    )


def job_row(job: Document, seen: Observation) -> JobRow:
    state = _state(job["status"])
    if state.tone is Tone.OK and job["waiting"]:
        state = State(word=state.word, tone=Tone.WARN)
    submitted_s = seen.submitted.get(job["id"])
    return JobRow(
        id=f"job-{job['id']}",
        name=job["id"],
        state=state,
        running=job["running"],
        waiting=job["waiting"],
        changed=ago(submitted_s, seen.at_s) if submitted_s is not None else "",
    )


def endpoint_row(endpoint: Document) -> EndpointRow:
    return EndpointRow(
        id=f"endpoint-{endpoint['cluster']}-{endpoint['address']}",
        cluster=endpoint["cluster"],
        address=endpoint["address"],
        state=_HEALTHY if endpoint["healthy"] else _NOT_HEALTHY,
        active=endpoint["active_requests"],
    )


def target_row(target: Document) -> TargetRow:
    return TargetRow(
        id=f"target-{target['service']}-{target['address']}",
        service=target["service"],
        address=target["address"],
        state=_UP if target["up"] else _DOWN,
        error=target["error"],
    )


def notices(status: Document) -> Iterator[Notice]:
    for trouble in status["troubles"]:
        yield Notice(
            id=f"trouble-{trouble['host']}-{trouble['what']}",
            text=f"{trouble['host']} {trouble['what']}",
            fix=trouble["fix"],
            tone=Tone.BAD,
        )
    for group in status["groups"]:
        if group["missing"]:
            yield _incomplete(group)
    for part, reason in status["unreachable"].items():
        yield Notice(
            id=f"silent-{part}", text=f"{part} does not answer: {reason}", fix="", tone=Tone.BAD
        )
    if status["running"] and (reason := status["autoscaler_blind"]):
        text = f"The autoscaler cannot see the load, so all counts stay as they are: {reason}"
        yield Notice(id="blind", text=text, fix="", tone=Tone.WARN)


def _incomplete(group: Document) -> Notice:
    """A replica over several hosts that lacks some of them."""
    lacks = ", ".join(f"rank {each['rank']} {each['said']}" for each in group["missing"])
    return Notice(
        id=f"group-{group['job']}-{group['number']}",
        text=f"{group['job']}, replica {group['number']}: {lacks}",
        fix="",
        tone=Tone.WARN,
    )


def _state(word: str) -> State:
    return State(word=word, tone=_TONES.get(word, Tone.QUIET))
