"""Clusters whose endpoints are on other hosts: TLS, and the death of a host.

When power or network of a host is lost, its packets vanish and no connection ends by itself. Two
things notice it:

* The health check takes the host's endpoints out for new requests, at most (1 s + 1 s) x 2 after
  the death. It cuts no stream.
* Pings on each HTTP/2 connection, which the proxy beside the replica answers
  (components/serving/tls_proxy.py), end it, and with it the requests that wait for an answer.
"""

from __future__ import annotations

from typing import Any

from ..routing import GRPC, Protocol
from .health_checks import health_check
from .upstream_tls import transport_socket

# The proxy passes it on to what watches the engine; one of an earlier version answers itself.
CHECK_PATH = "/slipway/proxy"
# Envoy adds up to 15 % to the interval. Any frame counts as an answer.
KEEPALIVE = {"interval": "1s", "timeout": "2.5s"}
_CODEC: dict[Protocol, str] = {GRPC: "HTTP2"}
_Json = dict[str, Any]


def on_other_hosts(protocol: Protocol, server_name: str) -> _Json:
    """What a cluster has more if its endpoints show a certificate with this name."""
    return {
        "transport_socket": transport_socket(server_name),
        "health_checks": [health_check(CHECK_PATH, _CODEC.get(protocol, "HTTP1"))],
    }
