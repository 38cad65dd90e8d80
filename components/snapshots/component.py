"""Snapshots: copies of the clusters' states, from which lost servers are restored."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.nomad.jobspec import to_json
from components.snapshots.job import JOB_ID, POLICY_RULES, snapshot_job
from slipway.plan.platform import PlatformPlan, SnapshotPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotsArgs:
    plan: PlatformPlan
    snapshots: SnapshotPlan
    authority: CertificateAuthority


class Snapshots(SlipwayComponent):
    """The periodic job that takes them, and the policy of its workload identity.

    The files stay on the job's host until `slipway down`, or until newer ones replace them. They
    hold every secret of both clusters.
    """

    def __init__(
        self, name: str, args: SnapshotsArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        facts = {"every_h": args.snapshots.every_h, "keep": args.snapshots.keep}
        super().__init__("Snapshots", name, facts, opts)
        policy = nomad.AclPolicy(
            JOB_ID,
            name=JOB_ID,
            description="Take snapshots, by the workload identity of the job that does",
            rules_hcl=POLICY_RULES,
            job_acl=nomad.AclPolicyJobAclArgs(namespace="default", job_id=JOB_ID),
            opts=self.child_options(),
        )
        certificate = job_certificate(self, JOB_ID, args.authority.issue(identities.job(JOB_ID)))
        nomad.Job(
            JOB_ID,
            jobspec=to_json(snapshot_job(args.plan, args.snapshots)),
            json=True,
            opts=self.child_options(depends_on=[policy, certificate]),
        )
        self.register_outputs({})
