"""TLS from Envoy to its control plane: it verifies its name and shows its own certificate.

services/xds writes the same for replicas on other hosts.
"""

from __future__ import annotations

from typing import Any

from components.certificates.envoy_secrets import (
    AUTHORITY,
    CERTIFICATE,
    TLS,
    TLS_PARAMETERS,
    secret,
)


def transport_socket(server_name: str) -> dict[str, Any]:
    """Of a cluster whose endpoints show a certificate with this name."""
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TLS}.UpstreamTlsContext",
            "sni": server_name,
            "common_tls_context": {
                "tls_params": TLS_PARAMETERS,
                "tls_certificate_sds_secret_configs": [secret(CERTIFICATE)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [
                            {"san_type": "DNS", "matcher": {"exact": server_name}}
                        ]
                    },
                    "validation_context_sds_secret_config": secret(AUTHORITY),
                },
            },
        },
    }
