"""The plan of an environment, complete: the planner's draft, with its models' jobs and routes.

A job's ID carries a digest of what its replicas are. If that were rendered differently under the
same ID, every replica would restart at once. What is rendered is digested, neither the code nor the
spec, so a comment in a renderer or a refactoring with the same output rolls no replica.
"""

from __future__ import annotations

import datetime

from components.serving.nomad_job import replica_content
from components.serving.route import route_document
from components.serving.services import service_of_all_specs
from slipway.inputs import PlanInputs
from slipway.plan.digest import digest
from slipway.plan.draft import ModelDraft, PlatformDraft
from slipway.plan.platform import STABLE, ModelPlan, PlatformPlan, Release
from slipway.planner.platform import draft_plan

SPEC_DIGEST_LENGTH = 6


def make_plan(inputs: PlanInputs, *, today: datetime.date | None = None) -> PlatformPlan:
    """The same for the same inputs. Raises ConfigError with every problem (draft_plan)."""
    return completed(draft_plan(inputs, today=today))


def completed(draft: PlatformDraft) -> PlatformPlan:
    return draft.with_models(_completed(model) for model in draft.models)


def _completed(model: ModelDraft) -> ModelPlan:
    stable = _stable(model)
    return model.with_jobs([stable], route_document(model, stable.service))


def _stable(model: ModelDraft) -> Release:
    needs_new_replicas = {
        "pool": model.pool,
        "surge": model.surge,  # decides the service that replicas register as
        "replica": replica_content(model),
    }
    spec_digest = digest(needs_new_replicas, length=SPEC_DIGEST_LENGTH)
    job_id = f"model-{model.name}-{spec_digest}"
    return Release(
        name=STABLE,
        spec_digest=spec_digest,
        job_id=job_id,
        service=job_id if model.surge is None else service_of_all_specs(model.name),
        scaling=model.scaling,
    )
