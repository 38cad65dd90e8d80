"""TLS on both sides: servers that ask for a certificate, and a client that shows one."""

from __future__ import annotations

import ssl
from typing import Any

import grpc

from .settings import Certificate

GATEWAY = "gateway-"  # certificates of other parts of the platform give no node id


def grpc_credentials(certificate: Certificate) -> grpc.ServerCredentials:
    """Of a server that only clients with a certificate of the authority can call."""
    return grpc.ssl_server_credentials(
        [(certificate.key.read_bytes(), certificate.chain.read_bytes())],
        root_certificates=certificate.authority.read_bytes(),
        require_client_auth=True,
    )


def server_context(certificate: Certificate) -> ssl.SSLContext:
    context = _context(ssl.Purpose.CLIENT_AUTH, certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(certificate: Certificate) -> ssl.SSLContext:
    return _context(ssl.Purpose.SERVER_AUTH, certificate)


def _context(purpose: ssl.Purpose, certificate: Certificate) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=str(certificate.authority))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the authority may be an intermediate
    context.load_cert_chain(certificate.chain, certificate.key)
    return context


def node_ids(context: Any) -> set[str] | None:
    """The node ids that the client's certificate gives it; None on a connection without TLS."""
    found = context.auth_context()
    if found.get("transport_security_type") != [b"ssl"]:
        return None
    names = {name.decode() for name in found.get("x509_common_name", [])}
    return {name for name in names if name.startswith(GATEWAY)}
