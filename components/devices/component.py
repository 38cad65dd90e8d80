"""Devices: the job that moves what runs on unhealthy ones."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.devices.job import JOB_ID, POLICY_RULES, evacuation_job
from components.nomad.jobspec import to_json
from slipway.plan.platform import DevicePluginPlan, PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvacuationArgs:
    plan: PlatformPlan
    plugin: DevicePluginPlan
    authority: CertificateAuthority


class DeviceEvacuation(SlipwayComponent):
    """The job, and the policy of its workload identity: it may stop allocations and nothing else.

    It keeps nothing: after a replace it finds in Nomad what it has to do.
    """

    def __init__(
        self, name: str, args: DeviceEvacuationArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("DeviceEvacuation", name, {}, opts)
        policy = nomad.AclPolicy(
            JOB_ID,
            name=JOB_ID,
            description="Stop allocations on unhealthy devices, by the workload identity of the job"
            " that does",
            rules_hcl=POLICY_RULES,
            job_acl=nomad.AclPolicyJobAclArgs(namespace="default", job_id=JOB_ID),
            opts=self.child_options(),
        )
        certificate = job_certificate(self, JOB_ID, args.authority.issue(identities.job(JOB_ID)))
        nomad.Job(
            JOB_ID,
            jobspec=to_json(evacuation_job(args.plan, args.plugin)),
            json=True,
            rerun_if_dead=True,
            opts=self.child_options(depends_on=[policy, certificate]),
        )
        self.register_outputs({})
