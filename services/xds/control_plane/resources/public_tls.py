"""TLS of the gateway's listener towards clients, who show no certificate.

The private key does not pass through here. Envoy reads it, with the certificate, from a file of its
own task (components/gateway/public_certificate.py writes it) and follows every change of the file:
new connections are shown the new certificate, and those that are open stay.
"""

from __future__ import annotations

from typing import Any

_TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
SECRET = "public"  # noqa: S105  (a resource's name in that file)
PROTOCOLS = ("h2", "http/1.1")  # gRPC, and OpenAI clients of either kind


def for_clients(path: str) -> dict[str, Any]:
    """The listener's transport socket. `path` is relative to where Envoy was started."""
    source = {"path_config_source": {"path": path}, "resource_api_version": "V3"}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TYPE}.DownstreamTlsContext",
            "common_tls_context": {
                "tls_params": {
                    "tls_minimum_protocol_version": "TLSv1_2",
                    "tls_maximum_protocol_version": "TLSv1_3",
                },
                "alpn_protocols": list(PROTOCOLS),
                "tls_certificate_sds_secret_configs": [{"name": SECRET, "sds_config": source}],
            },
        },
    }
