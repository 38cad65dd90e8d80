"""The gateway, and how clients know it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import Ipv4, ResourceName, Settings


class CertificateSettings(Settings):
    """`cert` is the certificate and those of its issuers, PEM, its own first; `key` is its private
    key. `name` is the name by which clients know the gateway, by default the first one in the
    certificate. `ca` has the certificates by which the command line knows it, by default those that
    the operator's machine trusts."""

    EXAMPLE = "{cert: tls/fullchain.pem, key: tls/privkey.pem}"
    cert: str
    key: str
    name: str | None = None
    ca: str | None = None


class GatewaySettings(Settings):
    """`address` is one address for the Envoys of all hosts of the pool: one of the living hosts has
    it. It belongs to none of them otherwise. With a `certificate`, clients speak TLS."""

    EXAMPLE = "{pool: edge, port: 8080}"
    pool: ResourceName = "edge"
    port: Annotated[int, Field(ge=1024, le=65535)] = 8080
    address: Ipv4 | None = None
    certificate: CertificateSettings | None = None
