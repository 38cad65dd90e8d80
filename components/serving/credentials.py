"""Which task may read the credentials of a model's weights."""

from __future__ import annotations

from dataclasses import dataclass

from components.serving.nomad_job import GROUP, WEIGHTS_TASK
from slipway.plan.platform import ModelPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsPolicy:
    """A policy of Nomad's, bound to one task of one job: the workload identity of the engine beside
    it cannot read them."""

    name: str
    job_id: str
    group: str
    task: str
    rules: str


def credentials_policy(model: ModelPlan, job_id: str) -> CredentialsPolicy | None:
    """None for a model whose source needs none."""
    weights = model.replica.weights
    if weights is None or weights.credentials is None:
        return None
    return CredentialsPolicy(
        name=f"{job_id}-credentials",
        job_id=job_id,
        group=GROUP,
        task=WEIGHTS_TASK,
        rules=_RULES.format(variable=weights.credentials),
    )


_RULES = """\
namespace "default" {{
  variables {{
    path "{variable}" {{
      capabilities = ["read"]
    }}
  }}
}}
"""
