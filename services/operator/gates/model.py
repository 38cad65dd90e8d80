"""The gate before a model's route moves: waits until every replica of its new job answers.

    model_ready.py apply    document in SLIPWAY_DOCUMENT (schemas/model-gate.schema.json), tokens as
                            JSON on standard input

A new spec is a new job beside the old one. The new job first takes over the old one's current count
(the autoscaler may have changed it); then this program waits until that many replicas pass their
checks in Consul. With `surge` 0 old replicas are removed one by one to make room
(replica_exchange.py), and restored if the change is given up. Every ten seconds it prints the last
state seen. It exits with 1 when it gives up; the serving replicas stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from program.arguments import expect_apply
from program.document import JsonObject, parsing, read_document, read_secrets
from program.errors import HostError, exit_code
from program.group.place import members_of
from program.http_json import Api, ApiError, operators
from program.waiting import say

from gates.gateway import Gateway
from gates.model_job import (
    STABLE,
    ModelJob,
    count_with,
    is_reduced,
    model_and_release,
    placed,
    services,
    whole,
)
from gates.protocols import PROTOCOLS, SUFFIXES, service_of
from gates.replica_exchange import Exchange, GivenUpError, registered

SCHEMA = "model-gate.schema.json"
SCHEMA_VERSION = 2  # version 1 had no `protocols`, no `release` and no `envoys`


@dataclass(frozen=True)
class Gate:
    model: str
    release: str  # jobs of other releases are not predecessors of this job
    job: ModelJob
    services: tuple[str, ...]  # in Consul, one per protocol of the model
    surge: int | None  # 0: replicas are replaced one by one; None: a full set beside the old one
    min_replicas: int
    max_replicas: int
    deadline_s: float
    nomad: Api
    consul: Api
    envoys: int

    def exchange(self, job: ModelJob, wanted: int, old_jobs: Sequence[ModelJob]) -> None:
        Exchange(
            model=self.model,
            job=job,
            services=self.services,
            wanted=wanted,
            old_jobs=old_jobs,
            deadline_s=self.deadline_s,
            consul=self.consul,
            gateway=Gateway(self.consul, self.envoys),
        ).run()


def read_gate(document: JsonObject, secrets: JsonObject) -> Gate:
    with parsing(SCHEMA):
        nomad = operators(document["nomad"], {"X-Nomad-Token": secrets["nomad_token"]})
        return Gate(
            model=document["model"],
            release=document.get("release", STABLE),
            job=ModelJob(document["job_id"], nomad),
            services=tuple(
                service_of(document["service"], protocol)
                for protocol in document.get("protocols", PROTOCOLS)
            ),
            surge=document["surge"],
            min_replicas=document["min_replicas"],
            max_replicas=document["max_replicas"],
            deadline_s=document["deadline_s"],
            nomad=nomad,
            consul=operators(document["consul"], {"X-Consul-Token": secrets["consul_token"]}),
            envoys=document.get("envoys", 0),
        )


def apply(gate: Gate) -> None:
    gate.job.resume()
    others = other_jobs(gate)
    old_jobs = [job for job in others if makes_room(gate, job)]
    wanted = take_over_count(gate, others)
    try:
        gate.exchange(gate.job, wanted, old_jobs)
    except GivenUpError as error:
        outcome = aftermath(gate, others, old_jobs, error)
        words = f"\nthe end of its stderr:\n{error.words}" if error.words else ""
        raise HostError(
            f"model {gate.model}: {error}{outcome}{words}\nfix: slipway logs {gate.job.id} shows"
            " more; change the model's file, then slipway up"
        ) from None


def other_jobs(gate: Gate) -> list[ModelJob]:
    """Jobs of the same release with another spec that are running or were reduced to no replicas;
    newest first."""
    stubs = [
        each
        for each in gate.nomad.get("/v1/jobs?meta=true")
        if model_and_release(each) == (gate.model, gate.release)
        and each["ID"] != gate.job.id
        and not each["Stop"]
    ]
    jobs = [(each["Status"], ModelJob(each["ID"], gate.nomad)) for each in stubs]
    found = [job for status, job in jobs if status != "dead" or is_reduced(job.document())]
    return sorted(found, key=ModelJob.serves_since, reverse=True)


def take_over_count(gate: Gate, others: Sequence[ModelJob]) -> int:
    """Scale the new job to the count of the model's other jobs; returns the count.

    Its own count cannot be used: Pulumi keeps the count of a job that it registers again, so it may
    be below the minimum, or date from when the job was stopped.
    """
    counts = [job.count_before() for job in others]
    if not others or (answers(gate, gate.job) and not gate.job.taken_up_again()):
        counts.append(gate.job.count())
    count = min(max(gate.min_replicas, *counts), gate.max_replicas)
    gate.job.scale(count, "takes over the count of the previous spec")
    return count


def aftermath(
    gate: Gate, others: Sequence[ModelJob], old_jobs: Sequence[ModelJob], error: GivenUpError
) -> str:
    """Leaves the model to the serving replicas; returns how that ended and what would help."""
    try:
        if old_jobs:
            return give_back(gate, old_jobs)
        return stand_down(gate, others) + capacity_hint(gate, others, error)
    except ApiError as lost:
        return f"\nsome replicas may not be restored: {lost}; the next run continues"


def give_back(gate: Gate, old_jobs: Sequence[ModelJob]) -> str:
    """Restore the old replicas: the oldest job was serving when all later ones failed.

    Returns how it ended. The other jobs are left without replicas, and start again at their next
    gate.
    """
    *later, oldest = old_jobs
    if gate.job.serves_since() < oldest.serves_since():
        return f"; the running replicas of {gate.job.id} keep serving"  # a change back
    failed = [gate.job, *later]
    say(f"model {gate.model}: given up; the replicas of {oldest.id} are being restored")
    for job in failed:
        members, running = members_of(job.document()), placed(job.allocations())
        serve = len(whole(running, members))
        job.reduce_to(count_with(running, members, serve))  # stops waiting for room
    oldest.restore()
    try:
        gate.exchange(oldest, oldest.count(), failed)
    except GivenUpError as error:
        return f"\nnot all replicas of {oldest.id} were restored: {error}"
    for job in failed:
        job.reduce_to(0)
    return f"; the replicas of {oldest.id} serve"


def makes_room(gate: Gate, job: ModelJob) -> bool:
    """Whether clients reach the replicas of both jobs by the same service name, in the same
    pool."""
    if gate.surge != 0:
        return False
    new, old = gate.job.document(), job.document()
    return old["NodePool"] == new["NodePool"] and services(new) <= services(old)


def stand_down(gate: Gate, others: Sequence[ModelJob]) -> str:
    """Remove the replicas of a job that serves no requests while an older job does: they would hold
    memory, and be scaled with the load of the model. Its next gate starts again."""
    since = gate.job.serves_since()
    older = [job for job in others if job.serves_since() < since]
    if answers(gate, gate.job) or not any(answers(gate, job) for job in older):
        return ""
    gate.job.reduce_to(0)
    return "; the replicas of the previous spec keep serving"


def answers(gate: Gate, job: ModelJob) -> bool:
    """Whether one of its replicas passes its checks for any protocol. Services without checks
    (Triton's metrics) always pass and are left out."""
    own = {each["ID"] for each in job.allocations()}
    return any(
        own & set(registered(gate.consul.get(f"/v1/health/service/{service}?passing=1")))
        for service in services(job.document())
        if service.endswith(SUFFIXES)
    )


def capacity_hint(gate: Gate, others: Sequence[ModelJob], error: GivenUpError) -> str:
    if not (others and error.for_room):
        return ""
    if gate.surge == 0:
        return (
            "\nThis change turns on `surge: 0` or moves the model to another pool: it needs room"
            " for all replicas at once; later changes do not."
        )
    return (
        "\nWith `surge: 0` for this model in Pulumi.<env>.yaml, replicas are replaced"
        " one by one: turn it on while there is room for a second set."
    )


def run() -> None:
    expect_apply("model_ready.py")
    apply(read_gate(read_document(SCHEMA_VERSION), read_secrets()))


def main() -> int:
    return exit_code(run)
