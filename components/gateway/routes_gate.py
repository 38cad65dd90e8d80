"""The document of the gate between moving the models' routes and deleting old jobs."""

from __future__ import annotations

from typing import Any

from slipway.plan.platform import PlatformPlan

# Longer than any restart of the control plane or of Envoy, so exceeding it is an error.
DEADLINE_S = 120


def gate_document(plan: PlatformPlan) -> dict[str, Any]:
    """schemas/routes-gate.schema.json"""
    return {
        "schema_version": 1,
        "consul": plan.operator.consul.url,
        "routes": {
            model.name: sorted(
                backend["service"] for backend in model.route["backends"] if backend["weight"]
            )
            for model in plan.models
        },
        "envoys": len(plan.gateway.envoys),
        "deadline_s": DEADLINE_S,
    }
