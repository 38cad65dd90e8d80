"""All that the page shows, as the platform says it at one moment."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from cli.applied import Applied, current
from cli.clusters.nomad import Nomad
from cli.clusters.served import Served, served
from cli.clusters.snapshot import take_snapshot
from cli.environment import Environment
from cli.hosts.troubles import Fixes

MODEL_OF_JOB = "slipway_model"  # in a job's metadata (components/serving/nomad_job.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingEvent:
    """A change of a job's count, or an attempt. `count` is None where only a message was left."""

    at_s: float  # Unix time
    count: int | None
    previous: int
    said: str
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCount:
    """The allocations that a model's job should have, and why."""

    job: str
    model: str
    submitted_s: float  # Unix time of the last change of its spec or count
    wanted: int
    events: tuple[ScalingEvent, ...]  # newest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """`status` is the document of `slipway status --json`. Without Prometheus `served` is empty,
    without Nomad `counts` and `submitted`."""

    at_s: float
    applied: Applied
    status: Mapping[str, Any]
    served: Mapping[str, Served] = field(default_factory=dict)
    counts: tuple[JobCount, ...] = ()
    submitted: Mapping[str, float] = field(default_factory=dict)  # job -> Unix time


@dataclass(kw_only=True)
class Observer:
    """Asks the platform. Counts are asked again only of jobs that Nomad has changed since."""

    environment: Environment
    applied: Applied
    fixes: Fixes
    _counts: dict[str, tuple[int, JobCount]] = field(default_factory=dict)

    def observe(self) -> Observation:
        """Never raises for a part that does not answer: `status` says which ones do not."""
        applied = current(self.environment, self.applied)
        status = take_snapshot(self.environment, applied, self.fixes)
        silent = status["unreachable"]
        with Nomad.of(self.environment, applied) as nomad:
            jobs = _jobs(nomad) if "nomad" not in silent else []
            counts = tuple(self._counts_of(nomad, jobs))
        return Observation(
            at_s=time.time(),
            applied=applied,
            status=status,
            served=_served(applied) if "prometheus" not in silent else {},
            counts=counts,
            submitted={job["ID"]: job["SubmitTime"] / 1e9 for job in jobs},
        )

    def _counts_of(self, nomad: Nomad, jobs: Iterable[Mapping[str, Any]]) -> Iterator[JobCount]:
        for job in jobs:
            model = (job.get("Meta") or {}).get(MODEL_OF_JOB)
            if model is not None:
                with suppress(httpx.HTTPError):
                    yield self._count_of(nomad, job, model)

    def _count_of(self, nomad: Nomad, job: Mapping[str, Any], model: str) -> JobCount:
        changed, known = self._counts.get(job["ID"], (-1, None))
        if known is None or changed != job["JobModifyIndex"]:
            known = job_count(job, model, nomad.scaling_of(job["ID"]))
            self._counts[job["ID"]] = job["JobModifyIndex"], known
        return known


def _jobs(nomad: Nomad) -> list[dict[str, Any]]:
    try:
        return nomad.jobs()
    except httpx.HTTPError:
        return []


def _served(applied: Applied) -> Mapping[str, Served]:
    try:
        return served(applied)
    except httpx.HTTPError:
        return {}


def job_count(job: Mapping[str, Any], model: str, scaling: Mapping[str, Any]) -> JobCount:
    """Of Nomad's entry of a job in its list, and its answer about the job's scaling."""
    groups = scaling["TaskGroups"].values()
    events = [_event(each) for group in groups for each in group.get("Events") or ()]
    return JobCount(
        job=job["ID"],
        model=model,
        submitted_s=job["SubmitTime"] / 1e9,
        wanted=sum(group["Desired"] for group in groups),
        events=tuple(sorted(events, key=lambda each: -each.at_s)),
    )


def _event(event: Mapping[str, Any]) -> ScalingEvent:
    return ScalingEvent(
        at_s=event["Time"] / 1e9,
        count=event["Count"],
        previous=event["PreviousCount"],
        said=event["Message"],
        failed=event["Error"],
    )
