"""Envoy's admin interface, and the port that passes on its readable pages.

The admin interface has no authentication, and can end Envoy: over TCP, anybody could, even a web
page. So it listens on a socket that only Envoy's own user can open. A listener of Envoy itself
forwards what the platform reads to that socket, for those who show a certificate of the platform,
and refuses everything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from components.envoy.http import cluster, connection_manager, read_only, socket_address
from components.envoy.tls import from_clients
from components.nomad.addresses import in_files
from slipway.plan.endpoint import Endpoint

ADMIN_CLUSTER = "admin"
# In the task's own folder, where Envoy starts. Relative, because the path of a socket has at most
# 107 bytes.
ADMIN_SOCKET = "admin.sock"
# For Prometheus, `slipway status` and Consul's check.
READABLE = ("/stats/prometheus", "/clusters", "/ready")

_METRICS = "metrics"  # the listener, and the prefix of its own statistics
_Json = dict[str, Any]


def admin_interface() -> _Json:
    return {"address": {"pipe": {"path": ADMIN_SOCKET, "mode": 0o600}}}


def admin_cluster() -> _Json:
    """The admin interface as an upstream, without limits: an Envoy that cannot be scraped stops the
    autoscaler."""
    return cluster(ADMIN_CLUSTER, {"pipe": {"path": ADMIN_SOCKET}}, {})


def metrics_listener(metrics: Endpoint, *, clients: Iterable[str]) -> _Json:
    """Lets in clients with these names, and its own node.

    It answers while Envoy is overloaded, as the admin interface does. Unlike it, it opens only once
    Envoy has its first configuration, or has given up waiting for it: an Envoy that starts without
    its control plane is not scraped for 45 s.
    """
    host = in_files(metrics).host
    not_here = f"only {', '.join(READABLE)}: all else is on {ADMIN_SOCKET} in the task's folder\n"
    manager = connection_manager(
        _METRICS,
        read_only(READABLE, ADMIN_CLUSTER, elsewhere=not_here),
        # A path is compared and forwarded as it was sent.
        {"codec_type": "HTTP1", "normalize_path": False},
    )
    return {
        "name": _METRICS,
        "stat_prefix": _METRICS,
        "address": socket_address(host, metrics.port),
        "bypass_overload_manager": True,
        "filter_chains": [
            {"transport_socket": from_clients(clients, own_address=host), "filters": [manager]}
        ],
    }
