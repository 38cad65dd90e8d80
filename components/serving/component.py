"""ModelService: one model as it is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pulumi

from components.base import SlipwayComponent
from components.hosts.program import secret_json
from slipway.plan.facts import model_facts
from slipway.plan.platform import ModelPlan, Pool

SECRETS_VERSION = 1


class Scheduler(Protocol):
    """Runs models' replicas, keeps their count within its bounds, and drains those that stop."""

    def job(
        self,
        model: ModelPlan,
        name: str,
        parent: SlipwayComponent,
        depends_on: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        """The job of the model's stable release. A changed spec replaces the resource."""

    def gate(
        self, model: ModelPlan, name: str, parent: SlipwayComponent, job: pulumi.Resource
    ) -> pulumi.Resource:
        """Waits until as many replicas of `job` answer as the old job has."""


class Discovery(Protocol):
    """How the gateway's control plane learns about models."""

    def route(
        self, model: ModelPlan, name: str, parent: SlipwayComponent, ready: pulumi.Resource
    ) -> pulumi.Resource:
        """The model's entry in the routing table (schemas/route.schema.json), created once it is
        ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServiceArgs:
    model: ModelPlan
    pool: Pool
    scheduler: Scheduler
    discovery: Discovery
    after: Sequence[pulumi.Resource] = ()  # what the job waits for besides the clusters


class ModelService(SlipwayComponent):
    """A model's job, the gate that waits for its replicas, and its entry in the routing table.

    Owns the job of the current spec, the bounds of its count and its route, and where its weights
    need credentials, the policy by which the task that fetches them reads them. Leaves the count
    itself to the autoscaler. A changed spec replaces the job with one of another name. The new job
    answers before the route moves and the old one drains, so no request is lost. Removing the model
    removes its route first. Prepared weights stay on the nodes.

    Attribute: `route`.
    """

    def __init__(
        self, name: str, args: ModelServiceArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        model = args.model
        super().__init__("ModelService", name, model_facts(model, args.pool), opts)
        job = args.scheduler.job(model, name, self, args.after)
        ready = args.scheduler.gate(model, f"{name}-ready", self, job)
        self.route = args.discovery.route(model, f"{name}-route", self, ready)
        self.register_outputs({"job_id": model.stable.job_id})


def gate_secrets(
    nomad_token: pulumi.Input[str], consul_token: pulumi.Input[str]
) -> pulumi.Output[str]:
    """The secrets with which gates query both clusters; shared by all models."""
    both = pulumi.Output.all(nomad_token=nomad_token, consul_token=consul_token)
    return secret_json(both.apply(lambda tokens: {"schema_version": SECRETS_VERSION, **tokens}))
