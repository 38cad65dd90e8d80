"""All jobs of the sample platform, by ID without the digest."""

from __future__ import annotations

from components.autoscaling.nomad import autoscaler_job
from components.certificates import task as certificate
from components.gateway.jobs import envoy_job, xds_job
from components.metrics.prometheus import prometheus_job
from components.nomad.jobspec import Job
from components.serving.nomad_job import model_job
from slipway.plan.platform import PlatformPlan

CERTIFICATE = (certificate.AUTHORITY, certificate.CERTIFICATE, certificate.KEY)  # Nomad's
NAMES = ("envoy", "model-sim", "model-smollm2", "nomad-autoscaler", "prometheus", "xds")


def platform_jobs(plan: PlatformPlan) -> dict[str, Job]:
    platform = [prometheus_job(plan), autoscaler_job(plan)]
    for envoy in plan.gateway.envoys:
        platform += [envoy_job(plan, envoy), xds_job(plan, envoy)]
    models = {
        f"model-{model.name}": model_job(
            model, model.stable, datacenter=plan.datacenter, autoscaling=plan.autoscaling
        )
        for model in plan.models
    }
    return {job.id: job for job in platform} | models


def files(job: Job) -> dict[str, str]:
    """Path -> content of every document that the job's tasks get."""
    found = {file.path: file.content for task in job.group.tasks for file in task.files}
    return {path: content for path, content in found.items() if path not in CERTIFICATE}
