"""The gateway's protocol for clients: plain HTTP, or TLS with a certificate that the operator
brings."""

from __future__ import annotations

from slipway.inputs import PlanInputs
from slipway.plan.endpoint import SYSTEM, Endpoint
from slipway.plan.platform import CertificatePlan


def plan_certificate(inputs: PlanInputs) -> CertificatePlan | None:
    settings, shown = inputs.environment.settings.gateway.certificate, inputs.certificate
    if settings is None or shown is None:
        return None
    return CertificatePlan(
        cert=settings.cert,
        key=settings.key,
        fingerprint=shown.fingerprint,
        expires=shown.expires.isoformat(),
    )


def for_clients(inputs: PlanInputs, host: str) -> Endpoint:
    """Where an Envoy on this host listens for clients."""
    gateway, shown = inputs.environment.settings.gateway, inputs.certificate
    if gateway.certificate is None or shown is None:
        return Endpoint(scheme="http", host=host, port=gateway.port)
    return Endpoint(
        scheme="https",
        host=host,
        port=gateway.port,
        server_name=shown.name,
        ca=gateway.certificate.ca or SYSTEM,
    )


def certificate_warnings(inputs: PlanInputs) -> tuple[str, ...]:
    return inputs.certificate.warnings if inputs.certificate else ()
