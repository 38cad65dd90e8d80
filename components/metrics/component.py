"""Monitoring: Prometheus, which scrapes everything that registers metrics in Consul."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.metrics.prometheus import prometheus_job
from components.nomad.jobspec import to_json
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringArgs:
    plan: PlatformPlan
    authority: CertificateAuthority


class Monitoring(SlipwayComponent):
    """The Prometheus job. Its samples are stored in the allocation; a replace loses them."""

    def __init__(
        self, name: str, args: MonitoringArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        monitoring = args.plan.monitoring
        address = monitoring.prometheus.url
        super().__init__("Monitoring", name, {"prometheus": address}, opts)
        job = prometheus_job(args.plan)
        identity = identities.prometheus(args.plan, job.id)
        certificate = job_certificate(self, job.id, args.authority.issue(identity))
        nomad.Job(
            job.id,
            jobspec=to_json(job),
            json=True,
            rerun_if_dead=True,
            opts=self.child_options(depends_on=[certificate]),
        )
        self.register_outputs({"prometheus": address})
