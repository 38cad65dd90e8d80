"""Clusters whose endpoints are on other hosts: TLS, and the death of a host.

When power or network of a host is lost, its packets vanish and no connection ends by itself. Two
things notice it, both by asking the proxy beside the replica (components/serving/tls_proxy.py),
because the engine may be busy for seconds:

* A health check takes the host's endpoints out for new requests. It cuts no stream.
* Pings on each HTTP/2 connection end it, and with it the requests that wait for an answer.
"""

from __future__ import annotations

from typing import Any

from ..routing import GRPC, Protocol
from .upstream_tls import transport_socket

# Answered by the proxy itself.
CHECK_PATH = "/slipway/proxy"
# A host that dies right after a check is out after (1 s + 1 s) x 2. Two in a row, because a single
# one also fails when this Envoy, or the other host, was paused for a moment.
CHECK_INTERVAL, CHECK_TIMEOUT, CHECKS_FAILED = "1s", "1s", 2
# Envoy adds up to 15 % to the interval. Any frame counts as an answer.
KEEPALIVE = {"interval": "1s", "timeout": "2.5s"}
_CODEC: dict[Protocol, str] = {GRPC: "HTTP2"}
_Json = dict[str, Any]


def on_other_hosts(protocol: Protocol, server_name: str) -> _Json:
    """What a cluster has more if its endpoints show a certificate with this name."""
    return {
        "transport_socket": transport_socket(server_name),
        "health_checks": [_health_check(protocol)],
    }


def _health_check(protocol: Protocol) -> _Json:
    return {
        "interval": CHECK_INTERVAL,
        # Where there was no request yet; Envoy's default is a minute.
        "no_traffic_interval": CHECK_INTERVAL,
        "timeout": CHECK_TIMEOUT,
        "unhealthy_threshold": CHECKS_FAILED,
        "healthy_threshold": 1,
        "http_health_check": {
            "path": CHECK_PATH,
            "codec_client_type": _CODEC.get(protocol, "HTTP1"),
            # A proxy of an earlier version passes the check on, and whatever comes back will do.
            "expected_statuses": [{"start": 200, "end": 600}],
        },
    }
