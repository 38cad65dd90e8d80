"""The document of the gate that waits until Envoy shows a changed certificate to clients."""

from __future__ import annotations

from typing import Any

from slipway.plan.platform import PlatformPlan

# Nomad renders a changed variable within seconds; a first Envoy starts within a minute.
DEADLINE_S = 120


def certificate_document(plan: PlatformPlan) -> dict[str, Any]:
    """schemas/certificate-gate.schema.json"""
    gateway = plan.gateway
    assert gateway.certificate is not None, "plain HTTP has no certificate"  # noqa: S101
    return {
        "schema_version": 1,
        "server_name": gateway.clients.server_name,
        "fingerprint": gateway.certificate.fingerprint,
        "listeners": {envoy.name: envoy.listener.authority for envoy in gateway.envoys},
        "deadline_s": DEADLINE_S,
    }


def asked_from(plan: PlatformPlan) -> str:
    """The host that the gate runs on, that of the first Envoy: its network reaches every listener,
    which the operator's machine may not."""
    return plan.gateway.envoys[0].node
