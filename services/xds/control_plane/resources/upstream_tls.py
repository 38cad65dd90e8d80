"""TLS from Envoy to replicas on other hosts: it verifies their name and shows its certificate.

The private key does not pass through here: Envoy reads it from files of its own task, named by
resources of these names (components/envoy/tls.py writes them).
"""

from __future__ import annotations

from typing import Any

_TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
_CERTIFICATE, _AUTHORITY = "certificate", "authority"
_FOLDER = "local"  # relative to where Envoy was started


def transport_socket(server_name: str) -> dict[str, Any]:
    """Of a cluster whose endpoints show a certificate with this name."""
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TYPE}.UpstreamTlsContext",
            "sni": server_name,
            "common_tls_context": {
                # As a client Envoy speaks TLS 1.2 at most, unless told otherwise.
                "tls_params": {
                    "tls_minimum_protocol_version": "TLSv1_3",
                    "tls_maximum_protocol_version": "TLSv1_3",
                },
                "tls_certificate_sds_secret_configs": [_secret(_CERTIFICATE)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": server_name}}
                        ]
                    },
                    "validation_context_sds_secret_config": _secret(_AUTHORITY),
                },
            },
        },
    }


def _secret(name: str) -> dict[str, Any]:
    path = {"path_config_source": {"path": f"{_FOLDER}/{name}.json"}}
    return {"name": name, "sds_config": {**path, "resource_api_version": "V3"}}
