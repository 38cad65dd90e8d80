"""TLS of the platform's Envoys: on both sides they show their certificate, and verify the names in
the other's.

services/xds writes the same for replicas on other hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from components.certificates.envoy_secrets import (
    AUTHORITY,
    CERTIFICATE,
    TLS,
    TLS_PARAMETERS,
    secret,
)

_Json = dict[str, Any]


def to_server(name: str) -> _Json:
    """The transport socket of a cluster whose endpoints show a certificate with this name."""
    context = {
        "@type": f"{TLS}.UpstreamTlsContext",
        "sni": name,
        "common_tls_context": _common([_dns(name)]),
    }
    return _socket(context)


def from_clients(names: Iterable[str], *, own_address: str, protocols: Sequence[str] = ()) -> _Json:
    """The transport socket of a listener that lets in clients with one of these names, and Consul's
    agent on the same node, which shows the node's certificate when it checks a service.

    The node is identified by its address, `own_address`, which the certificates of the platform's
    jobs on it also contain. `protocols` are offered by ALPN.
    """
    own_node = {"san_type": "IP_ADDRESS", "matcher": {"exact": own_address}}
    context = {
        "@type": f"{TLS}.DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {**_common([*map(_dns, names), own_node]), **_offered(protocols)},
    }
    return _socket(context)


def _offered(protocols: Sequence[str]) -> _Json:
    return {"alpn_protocols": list(protocols)} if protocols else {}


def _dns(name: str) -> _Json:
    return {"san_type": "DNS", "matcher": {"exact": name}}


def _common(names: list[_Json]) -> _Json:
    return {
        "tls_params": TLS_PARAMETERS,
        "tls_certificate_sds_secret_configs": [secret(CERTIFICATE)],
        "combined_validation_context": {
            "default_validation_context": {"match_typed_subject_alt_names": names},
            "validation_context_sds_secret_config": secret(AUTHORITY),
        },
    }


def _socket(context: _Json) -> _Json:
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}
