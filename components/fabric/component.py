"""FabricChecks: who checks hosts, and who says which of them take members of groups."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority, job_certificate
from components.fabric.jobs import (
    ADMISSION_RULES,
    CHECK_RULES,
    JOB_ID,
    admission_job,
    check_job,
    pools_with_groups,
)
from components.nomad.jobspec import Job, to_json
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricChecksArgs:
    plan: PlatformPlan
    authority: CertificateAuthority


class FabricChecks(SlipwayComponent):
    """A job on every host of each pool with groups, one job for all of them that judges, and the
    policies of their workload identities.

    The verdicts are in the metadata of the hosts' nodes, which stays when these jobs go.
    """

    def __init__(
        self, name: str, args: FabricChecksArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("FabricChecks", name, {}, opts)
        plan = args.plan
        for pool in pools_with_groups(plan):
            self._job(check_job(plan, pool), CHECK_RULES, "Read nodes")
        identity = identities.fabric_admission(plan, JOB_ID)
        certificate = job_certificate(self, JOB_ID, args.authority.issue(identity))
        said = "Read what hosts found, and write the metadata of nodes"
        self._job(admission_job(plan), ADMISSION_RULES, said, certificate)
        self.register_outputs({})

    def _job(self, job: Job, rules: str, may: str, *after: pulumi.Resource) -> None:
        policy = nomad.AclPolicy(
            job.id,
            name=job.id,
            description=f"{may}, by the workload identity of the job that does",
            rules_hcl=rules,
            job_acl=nomad.AclPolicyJobAclArgs(namespace="default", job_id=job.id),
            opts=self.child_options(),
        )
        nomad.Job(
            job.id,
            jobspec=to_json(job),
            json=True,
            rerun_if_dead=True,
            opts=self.child_options(depends_on=[policy, *after]),
        )
