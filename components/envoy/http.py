"""Parts of the static configuration of an Envoy that passes on HTTP requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNLIMITED = 2**32 - 1
_FILTERS = "type.googleapis.com/envoy.extensions.filters"
_Json = dict[str, Any]


def connection_manager(name: str, routes: Sequence[_Json], options: Mapping[str, Any]) -> _Json:
    """The network filter of a listener that compares requests with `routes`; the first match wins.

    `name` is the prefix of its statistics. `options` are further fields of
    HttpConnectionManager.
    """
    router = {"@type": f"{_FILTERS}.http.router.v3.Router", "suppress_envoy_headers": True}
    hosts = [{"name": name, "domains": ["*"], "routes": list(routes)}]
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "route_config": {"name": name, "virtual_hosts": hosts},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
            **options,
        },
    }


def read_only(pages: Iterable[str], cluster: str, *, elsewhere: str) -> list[_Json]:
    """Routes that pass on GET of exactly these pages.

    Another method gets 405, another page 404 with the text `elsewhere`. HEAD is not passed on:
    Envoy's admin interface answers it with a body, which breaks the connection.
    """
    get = {"name": ":method", "string_match": {"exact": "GET"}}
    paths = tuple(pages)
    return [
        *({"match": {"path": path, "headers": [get]}, "route": forward(cluster)} for path in paths),
        *(
            {
                "match": {"path": path},
                "direct_response": answer(405, "only GET\n"),
                "response_headers_to_add": [{"header": {"key": "allow", "value": "GET"}}],
            }
            for path in paths
        ),
        {"match": {"prefix": "/"}, "direct_response": answer(404, elsewhere)},
    ]


def forward(cluster: str) -> _Json:
    return {"cluster": cluster, "timeout": "0s"}  # clients have timeouts of their own


def answer(status: int, text: str) -> _Json:
    return {"status": status, "body": {"inline_string": text}}


def cluster(name: str, address: _Json, options: Mapping[str, Any]) -> _Json:
    """One endpoint, without limits. `options` are further fields of Cluster."""
    limits = ("max_connections", "max_pending_requests", "max_requests")
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, UNLIMITED)]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        **options,
    }


def socket_address(host: str, port: int | str) -> _Json:
    # Envoy reads numbers from text, too.
    return {"socket_address": {"address": host, "port_value": port}}
