"""The gateway, and the certificate that it shows clients."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Ipv4, ResourceName, Settings

Weights = Literal["load", "equal"]


class CertificateSettings(Settings):
    """`cert` is the certificate and those of its issuers, PEM, its own first; `key` is its private
    key. `name` is the host name that clients use, by default the first one in the certificate. `ca`
    has the authorities by which the command line verifies the gateway, by default those that the
    operator's machine trusts."""

    EXAMPLE = "{cert: tls/fullchain.pem, key: tls/privkey.pem}"
    cert: str
    key: str
    name: str | None = None
    ca: str | None = None


class GatewaySettings(Settings):
    """`address` is shared by the Envoys of all hosts of the pool: one living host has it at a time.
    It must not be the own address of any host. With a `certificate`, clients speak TLS. Replicas
    have `weights`: equal ones, or by the load that their engines report."""

    EXAMPLE = "{pool: edge, port: 8080}"
    pool: ResourceName = "edge"
    port: Annotated[int, Field(ge=1024, le=65535)] = 8080
    address: Ipv4 | None = None
    certificate: CertificateSettings | None = None
    weights: Weights = "equal"
