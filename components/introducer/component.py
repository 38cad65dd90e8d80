"""Introducer: what lets new nodes of elastic pools into the clusters."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.introducer.job import JOB_ID, POLICY_RULES, introducer_job
from components.nomad.jobspec import to_json
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class IntroducerArgs:
    plan: PlatformPlan
    aws: AwsPlan
    authority: CertificateAuthority


class Introducer(SlipwayComponent):
    """The job, and the policy of its workload identity: it may write nodes and what they say of
    themselves, and nothing else.

    It keeps nothing. While it does not run, nodes that have joined go on, and new ones wait.

    Attribute: `job` (for the pools to depend on).
    """

    def __init__(
        self, name: str, args: IntroducerArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Introducer", name, {"pools": sorted(args.aws.pools)}, opts)
        policy = nomad.AclPolicy(
            JOB_ID,
            name=JOB_ID,
            description="Sign introductions of new nodes, and serve those that leave, by the"
            " workload identity of the job that does",
            rules_hcl=POLICY_RULES,
            job_acl=nomad.AclPolicyJobAclArgs(namespace="default", job_id=JOB_ID),
            opts=self.child_options(),
        )
        addresses = tuple(each.host for each in args.aws.introducers)
        identity = identities.introducer(args.plan, JOB_ID, addresses)
        certificate = job_certificate(self, JOB_ID, args.authority.issue(identity))
        self.job = nomad.Job(
            JOB_ID,
            jobspec=to_json(introducer_job(args.plan, args.aws)),
            json=True,
            rerun_if_dead=True,
            opts=self.child_options(depends_on=[policy, certificate]),
        )
        self.register_outputs({})
