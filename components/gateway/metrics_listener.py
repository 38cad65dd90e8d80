"""Envoy's admin interface, and the port that passes on what may be read of it.

The admin interface asks nobody who they are, and can end Envoy: whoever reached it over TCP could,
even a web page. It listens on a socket that only Envoy's own user can open. A listener of Envoy
itself forwards what the platform reads to that socket, and refuses everything else.
"""

from __future__ import annotations

from typing import Any

ADMIN_CLUSTER = "admin"
# In the task's own folder, where Envoy starts. Relative, because the path of a socket has at most
# 107 bytes.
ADMIN_SOCKET = "admin.sock"
# For Prometheus, `slipway status` and Consul's check.
READABLE = ("/stats/prometheus", "/clusters", "/ready")

_METRICS = "metrics"  # the listener, and the prefix of its own statistics
_UNLIMITED = 2**32 - 1
_TYPE = "type.googleapis.com/envoy.extensions.filters"
_Json = dict[str, Any]


def admin_interface() -> _Json:
    return {"address": {"pipe": {"path": ADMIN_SOCKET, "mode": 0o600}}}


def admin_cluster() -> _Json:
    """The admin interface as an upstream. It has no limits: an Envoy that cannot be scraped stops
    the autoscaler."""
    limits = ("max_connections", "max_pending_requests", "max_requests")
    endpoint = {"address": {"pipe": {"path": ADMIN_SOCKET}}}
    return {
        "name": ADMIN_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, _UNLIMITED)]},
        "load_assignment": {
            "cluster_name": ADMIN_CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}],
        },
    }


def metrics_listener(address: _Json) -> _Json:
    """Answers while Envoy is overloaded, as the admin interface does.

    Unlike it, it opens only once Envoy has its first configuration, or has given up waiting for it:
    an Envoy that starts without its control plane is not scraped for 45 s.
    """
    return {
        "name": _METRICS,
        "stat_prefix": _METRICS,
        "address": address,
        "bypass_overload_manager": True,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": _connection_manager(),
                    }
                ]
            }
        ],
    }


def _connection_manager() -> _Json:
    router: _Json = {
        "@type": f"{_TYPE}.http.router.v3.Router",
        "suppress_envoy_headers": True,
    }
    return {
        "@type": f"{_TYPE}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": _METRICS,
        "codec_type": "HTTP1",
        "normalize_path": False,  # a path is compared and forwarded as it was sent
        "route_config": {
            "name": _METRICS,
            "virtual_hosts": [{"name": _METRICS, "domains": ["*"], "routes": _routes()}],
        },
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }


def _routes() -> list[_Json]:
    """The first match wins.

    HEAD is not passed on: Envoy's admin interface answers it with a body, which breaks the
    connection.
    """
    get = {"name": ":method", "string_match": {"exact": "GET"}}
    not_here = f"only {', '.join(READABLE)}: all else is on {ADMIN_SOCKET} in the task's folder\n"
    return [
        *({"match": {"path": path, "headers": [get]}, "route": _forward()} for path in READABLE),
        *(
            {
                "match": {"path": path},
                "direct_response": _answer(405, "only GET\n"),
                "response_headers_to_add": [{"header": {"key": "allow", "value": "GET"}}],
            }
            for path in READABLE
        ),
        {"match": {"prefix": "/"}, "direct_response": _answer(404, not_here)},
    ]


def _forward() -> _Json:
    return {"cluster": ADMIN_CLUSTER, "timeout": "0s"}  # the reader has a timeout of its own


def _answer(status: int, text: str) -> _Json:
    return {"status": status, "body": {"inline_string": text}}
