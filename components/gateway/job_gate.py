"""What the gates between the hosts of the gateway wait for: they change one after the other."""

from __future__ import annotations

from typing import Any

from components.nomad.jobspec import Job
from slipway.plan.digest import digest
from slipway.plan.platform import EnvoyPlan, PlatformPlan

# An Envoy gives the shared address away, ends, and starts within half a minute; one that starts
# without its control plane waits 45 s for it first.
DEADLINE_S = 180
_DIGEST_LENGTH = 12


def job_gate_document(plan: PlatformPlan, envoy: EnvoyPlan, job: Job) -> dict[str, Any]:
    """schemas/gateway-job-gate.schema.json. `job` runs on the Envoy's host; a changed job
    makes the gate run again, and what depends on it wait."""
    return {
        "schema_version": 1,
        "nomad": plan.operator.nomad.url,
        "consul": plan.operator.consul.url,
        "job": job.id,
        "changes": digest(job.render(), length=_DIGEST_LENGTH),
        "service": job.group.services[0].name,  # the first is the one that others wait for
        "node": envoy.node,
        "deadline_s": DEADLINE_S,
    }
