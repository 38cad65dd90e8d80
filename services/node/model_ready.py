"""Wait until every replica of a model's new job answers; the gate before its route moves.

    model_ready.py apply        document in SLIPWAY_DOCUMENT, tokens as JSON on standard input

A new spec is a new job beside the old one. It first takes over the old one's current count (the
autoscaler may have moved it), then this program waits until that many replicas pass their checks
in Consul. With `surge` 0 old replicas make room one by one (replica_exchange.py), and come back
when the change is given up. Every ten seconds it prints the last thing seen. Exit 1 when it is
given up: the model is left to the replicas that serve it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from document import read_document, read_secrets
from errors import HostError, InputError, exit_code
from http_json import Api, ApiError
from model_job import ModelJob, group_of, is_reduced, placed, services
from replica_exchange import DOORS, Exchange, GivenUpError, registered
from waiting import say


@dataclass(frozen=True)
class Gate:
    model: str
    job: ModelJob
    service: str
    surge: int | None  # 0: replicas are exchanged one by one; None: a full set beside the old one
    min_replicas: int
    max_replicas: int
    deadline_s: float
    nomad: Api
    consul: Api

    def exchange(self, job: ModelJob, wanted: int, lenders: Sequence[ModelJob]) -> None:
        Exchange(
            model=self.model,
            job=job,
            service=self.service,
            wanted=wanted,
            lenders=lenders,
            deadline_s=self.deadline_s,
            consul=self.consul,
        ).run()


def apply(document: dict[str, Any], secrets: dict[str, Any]) -> None:
    nomad = Api(document["nomad"], {"X-Nomad-Token": secrets["nomad_token"]})
    gate = Gate(
        model=document["model"],
        job=ModelJob(document["job_id"], nomad),
        service=document["service"],
        surge=document["surge"],
        min_replicas=document["min_replicas"],
        max_replicas=document["max_replicas"],
        deadline_s=document["deadline_s"],
        nomad=nomad,
        consul=Api(document["consul"], {"X-Consul-Token": secrets["consul_token"]}),
    )
    gate.job.resume()
    others = other_jobs(gate)
    lenders = [job for job in others if makes_room(gate, job)]
    wanted = take_over_count(gate, others)
    try:
        gate.exchange(gate.job, wanted, lenders)
    except GivenUpError as error:
        outcome = aftermath(gate, others, lenders, error)
        words = f"\nits last words on stderr:\n{error.words}" if error.words else ""
        raise HostError(
            f"model {gate.model}: {error}{outcome}{words}\nfix: slipway logs {gate.job.id} shows"
            " more; change the model's file, then slipway up"
        ) from None


def other_jobs(gate: Gate) -> list[ModelJob]:
    """Jobs of the same model with another spec that live, or have lent all; newest first."""
    stubs = [
        each
        for each in gate.nomad.get("/v1/jobs?meta=true")
        if (each.get("Meta") or {}).get("slipway_model") == gate.model
        and each["ID"] != gate.job.id
        and not each["Stop"]
    ]
    jobs = [(each["Status"], ModelJob(each["ID"], gate.nomad)) for each in stubs]
    found = [job for status, job in jobs if status != "dead" or is_reduced(job.document())]
    return sorted(found, key=ModelJob.serves_since, reverse=True)


def take_over_count(gate: Gate, others: Sequence[ModelJob]) -> int:
    """Scale the new job to the count of the model's other jobs; returns its count.

    Its own may be below its minimum, for Pulumi keeps the count of a job that it takes back; and
    where it does not serve yet, or does since a moment ago, it is what it had when it was stopped.
    """
    own = int(group_of(gate.job.document())["Count"])
    counts = [job.count_before() for job in others]
    if not others or (answers(gate, gate.job) and not gate.job.taken_up_again()):
        counts.append(own)
    count = min(max(gate.min_replicas, *counts), gate.max_replicas)
    if count != own:
        gate.job.scale(count, "takes over the count of the previous spec")
    return count


def aftermath(
    gate: Gate, others: Sequence[ModelJob], lenders: Sequence[ModelJob], error: GivenUpError
) -> str:
    """Leaves the model to the replicas that serve it; says how that ended, and what would help."""
    try:
        if lenders:
            return give_back(gate, lenders)
        return stand_down(gate, others) + way_to_room(gate, others, error)
    except ApiError as lost:
        return f"\nnot all replicas may be as they were: {lost}; the next run goes on with it"


def give_back(gate: Gate, lenders: Sequence[ModelJob]) -> str:
    """Exchange the replicas back: the oldest job was serving when all later ones failed.

    Says how it ended. The others are left without replicas, and begin anew at their next gate.
    """
    *later, oldest = lenders
    if gate.job.serves_since() < oldest.serves_since():
        return f"; what runs of {gate.job.id} goes on serving"  # a change was being taken back
    failed = [gate.job, *later]
    say(f"model {gate.model}: given up; the replicas of {oldest.id} come back")
    for job in failed:
        job.reduce_to(len(placed(job.allocations())))  # what waits for room waits no more
    oldest.restore()
    try:
        gate.exchange(oldest, oldest.count(), failed)
    except GivenUpError as error:
        return f"\nnot all replicas of {oldest.id} came back: {error}"
    for job in failed:
        job.reduce_to(0)
    return f"; the replicas of {oldest.id} serve"


def makes_room(gate: Gate, job: ModelJob) -> bool:
    """Whether clients reach the replicas of both jobs by the same name, in the same pool."""
    if gate.surge != 0:
        return False
    new, old = gate.job.document(), job.document()
    return old["NodePool"] == new["NodePool"] and services(new) <= services(old)


def stand_down(gate: Gate, others: Sequence[ModelJob]) -> str:
    """Take the replicas of a job that serves nobody while an older one does: they would hold
    memory, and be scaled with the load of the model. Its next gate begins anew."""
    since = gate.job.serves_since()
    older = [job for job in others if job.serves_since() < since]
    if answers(gate, gate.job) or not any(answers(gate, job) for job in older):
        return ""
    gate.job.reduce_to(0)
    return "; the replicas of the previous spec go on serving"


def answers(gate: Gate, job: ModelJob) -> bool:
    """Whether one of its replicas passes its checks on some door. What has no check, the metrics
    of Triton, always passes."""
    own = {each["ID"] for each in job.allocations()}
    doors = tuple(f"-{door}" for door in DOORS)
    return any(
        own & registered(gate.consul.get(f"/v1/health/service/{service}?passing=1"))
        for service in services(job.document())
        if service.endswith(doors)
    )


def way_to_room(gate: Gate, others: Sequence[ModelJob], error: GivenUpError) -> str:
    if not (others and error.for_room):
        return ""
    if gate.surge == 0:
        return (
            "\nThis change is the one that turns on `surge: 0`, or moves the model to"
            " another pool: it needs room for all replicas once; later ones do not."
        )
    return (
        "\nWith `surge: 0` for this model in Pulumi.<env>.yaml replicas are exchanged"
        " one by one: turn it on while there is room, once."
    )


def main(arguments: list[str]) -> None:
    if arguments != ["apply"]:
        raise InputError("usage: model_ready.py apply")
    apply(read_document(), read_secrets())


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
