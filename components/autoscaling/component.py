"""Autoscaler: the Nomad Autoscaler and its permissions."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.autoscaling.nomad import JOB_ID, POLICY_RULES, autoscaler_job
from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.nomad.jobspec import to_json
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerArgs:
    plan: PlatformPlan
    authority: CertificateAuthority


class Autoscaler(SlipwayComponent):
    """The autoscaler's job and the policy of its workload identity.

    Each model's minimum and maximum are in the model's own job. A replace leaves all counts
    unchanged.
    """

    def __init__(
        self, name: str, args: AutoscalerArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Autoscaler", name, {}, opts)
        policy = nomad.AclPolicy(
            JOB_ID,
            name=JOB_ID,
            description="Scale jobs, by the workload identity of the autoscaler's own job",
            rules_hcl=POLICY_RULES,
            job_acl=nomad.AclPolicyJobAclArgs(namespace="default", job_id=JOB_ID),
            opts=self.child_options(),
        )
        identity = identities.autoscaler(args.plan, JOB_ID)
        certificate = job_certificate(self, JOB_ID, args.authority.issue(identity))
        nomad.Job(
            JOB_ID,
            jobspec=to_json(autoscaler_job(args.plan)),
            json=True,
            rerun_if_dead=True,
            opts=self.child_options(depends_on=[policy, certificate]),
        )
        self.register_outputs({})
