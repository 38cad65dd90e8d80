"""Nomad as the scheduler of models: one job per model, and the gate that waits for its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.hosts.program import HostProgram, Hosts
from components.nomad.jobspec import to_json
from components.serving.credentials import CredentialsPolicy, credentials_policy
from components.serving.nomad_job import DRAIN_MARGIN_S, model_job
from slipway.plan.platform import ModelPlan, PlatformPlan

GATE_SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NomadScheduler:
    plan: PlatformPlan
    programs: Hosts
    gate_secrets: pulumi.Output[str]  # from components.serving.component.gate_secrets

    def job(
        self,
        model: ModelPlan,
        name: str,
        parent: SlipwayComponent,
        depends_on: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        job = model_job(
            model,
            model.stable,
            datacenter=self.plan.datacenter,
            autoscaling=self.plan.autoscaling,
        )
        policy = credentials_policy(model, job.id)
        policies = [] if policy is None else [_policy(policy, name, parent)]
        return nomad.Job(
            name,
            jobspec=to_json(job),
            json=True,
            rerun_if_dead=True,
            preserve_counts=True,  # the autoscaler's count survives an update
            # Never purged: clients miss purges in quick succession and leave the replicas running
            # (nomad issue 28242). Nomad removes a stopped job after some hours.
            purge_on_destroy=False,
            detach=True,  # there are no deployments to wait for; the gate waits
            opts=parent.child_options(depends_on=[*policies, *depends_on]),
        )

    def gate(
        self, model: ModelPlan, name: str, parent: SlipwayComponent, job: pulumi.Resource
    ) -> pulumi.Resource:
        program = HostProgram(
            bundle=self.plan.operator.bundle,
            script="model_ready.py",
            document=_gate_document(self.plan, model),
            secrets=self.gate_secrets,
            removes=False,
            timeout_s=_timeout_s(model),
        )
        return self.programs.run(program, name, parent, depends_on=[job])


def _policy(policy: CredentialsPolicy, name: str, parent: SlipwayComponent) -> nomad.AclPolicy:
    return nomad.AclPolicy(
        f"{name}-credentials",
        name=policy.name,
        description="Read the credentials of a model's weights, by the workload identity of the"
        " task that fetches them",
        rules_hcl=policy.rules,
        job_acl=nomad.AclPolicyJobAclArgs(
            namespace="default", job_id=policy.job_id, group=policy.group, task=policy.task
        ),
        opts=parent.child_options(),
    )


def _gate_document(plan: PlatformPlan, model: ModelPlan) -> dict[str, object]:
    """The document for services/operator/model_ready.py (schemas/model-gate.schema.json)."""
    release = model.stable
    return {
        "schema_version": GATE_SCHEMA_VERSION,
        "model": model.name,
        "release": release.name,
        "protocols": list(model.protocols),
        "job_id": release.job_id,
        "service": release.service,
        "surge": model.surge,
        "min_replicas": release.scaling.min_replicas,
        "max_replicas": release.scaling.max_replicas,
        "envoys": len(plan.gateway.envoys),
        "deadline_s": _deadline_s(model),
        "nomad": plan.operator.nomad.url,
        "consul": plan.operator.consul.url,
    }


def _deadline_s(model: ModelPlan) -> int:
    """Two load times, because preparing weights on a new node may take as long as loading them.
    Replicas that are replaced one by one also wait for the old one to drain."""
    drain_s = 0 if model.surge is None else DRAIN_MARGIN_S + model.replica.drain_timeout_s
    return 2 * model.replica.load_timeout_s + drain_s


def _timeout_s(model: ModelPlan) -> int:
    """Longer than the gate's own deadlines, whose last message explains the failure: one deadline
    for all replicas, or one for each replica, in both directions."""
    deadlines = 1 if model.surge is None else 2 * (model.stable.scaling.max_replicas + 1)
    return deadlines * _deadline_s(model) + 60
