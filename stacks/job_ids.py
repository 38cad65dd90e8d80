"""The IDs of models' jobs: digests of the rendered jobs, not of the code that renders them."""

from __future__ import annotations

from dataclasses import replace

from components.serving.nomad_job import replica_content
from slipway.plan.digest import digest
from slipway.plan.platform import ModelPlan, PlatformPlan, Release


def with_job_ids(plan: PlatformPlan) -> PlatformPlan:
    """The plan with the job IDs of its rendered jobs.

    The planner's digest is of the spec: if that were rendered differently under the same ID, every
    replica would restart at once. What is rendered is digested, neither the code nor the spec, so a
    comment in a renderer or a refactoring with the same output rolls no replica.
    """
    return replace(plan, models=tuple(_with_job_ids(model) for model in plan.models))


def _with_job_ids(model: ModelPlan) -> ModelPlan:
    releases = tuple(_with_job_id(model, release) for release in model.releases)
    services = {old.service: new.service for old, new in zip(model.releases, releases, strict=True)}
    backends = [
        {**backend, "service": services[backend["service"]]} for backend in model.route["backends"]
    ]
    return replace(model, releases=releases, route={**model.route, "backends": backends})


def _with_job_id(model: ModelPlan, release: Release) -> Release:
    needs_new_replicas = {
        "pool": model.pool,
        "surge": model.surge,  # decides the service that replicas register as
        "replica": replica_content(model),
    }
    spec_digest = digest(needs_new_replicas, length=len(release.spec_digest))
    job_id = f"model-{model.name}-{spec_digest}"
    service = job_id if model.surge is None else release.service
    return replace(release, spec_digest=spec_digest, job_id=job_id, service=service)
