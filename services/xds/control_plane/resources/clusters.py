"""Clusters: one per backend and protocol. They do not change with the number of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..routing import GRPC, HTTP, Backend, Protocol, Route
from .health_checks import LIVENESS_PATH, health_check
from .load_balancing import load_balancing_policy
from .other_hosts import KEEPALIVE, on_other_hosts

_TYPE = "type.googleapis.com/envoy.extensions"


def clusters(routes: Iterable[Route]) -> dict[str, dict[str, Any]]:
    """Envoy clusters by name, for every backend of every route."""
    return {
        backend.cluster(protocol): _cluster(route, backend, protocol)
        for route in routes
        for backend in route.backends
        for protocol in route.protocols
    }


def _cluster(route: Route, backend: Backend, protocol: Protocol) -> dict[str, Any]:
    """On other hosts if its certificate has a name; those on this host die with it."""
    name = backend.cluster(protocol)
    if backend.server_name is None:
        options = {HTTP: _http1(), GRPC: _http2({"interval": "20s", "timeout": "5s"})}
        on_this_host = _anywhere(name, route, protocol, options[protocol])
        return {**on_this_host, "health_checks": [health_check(LIVENESS_PATH, "HTTP1")]}
    options = {HTTP: _http2_if_spoken(), GRPC: _http2(KEEPALIVE)}
    return {
        **_anywhere(name, route, protocol, options[protocol]),
        **on_other_hosts(protocol, backend.server_name),
    }


def _anywhere(
    name: str, route: Route, protocol: Protocol, protocol_options: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
        "connect_timeout": "1s",
        "per_connection_buffer_limit_bytes": 32768,
        "ignore_health_on_host_removal": True,
        # The control plane guards against empty clusters itself, so no traffic goes to known-bad
        # replicas.
        "common_lb_config": {
            "healthy_panic_threshold": {"value": 0.0},
            # By default a new replica's first health check counts up to a second later.
            "update_merge_window": "0s",
        },
        "load_balancing_policy": load_balancing_policy(route.routing, protocol),
        "circuit_breakers": {"thresholds": [_threshold(route)]},
        "outlier_detection": _outlier_detection(),
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol_options
        },
    }


def _threshold(route: Route) -> dict[str, Any]:
    """Limits for one replica: resources/runtime.py raises them as replicas come and go."""
    limit = route.max_concurrent_requests_per_replica
    return {
        "priority": "DEFAULT",
        "max_connections": 1_000_000,
        "max_requests": limit,
        "max_pending_requests": limit,
        # A share of the requests that are active shrinks as they end, so that those of a replica
        # that has died would use it up. The number of retries of each request bounds them.
        "retry_budget": {"budget_percent": {"value": 100.0}, "min_retry_concurrency": limit},
        "track_remaining": True,
    }


def _outlier_detection() -> dict[str, Any]:
    """Ejects failing replicas: one of two, never the only one, never most of them."""
    return {
        "consecutive_gateway_failure": 3,
        "enforcing_consecutive_gateway_failure": 100,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 3,
        "interval": "1s",
        "base_ejection_time": "5s",
        # A health check asks the proxy, which answers whatever the replica does.
        "successful_active_health_check_uneject_host": False,
        "max_ejection_percent": 50,
    }


def _http1() -> dict[str, Any]:
    """vLLM's server speaks HTTP/1.1 only."""
    return _explicit({"http_protocol_options": {}})


def _http2(keepalive: Mapping[str, str]) -> dict[str, Any]:
    return _explicit(_http2_options(keepalive))


def _http2_if_spoken() -> dict[str, Any]:
    """The proxy before vLLM speaks HTTP/2, one of an earlier version does not; TLS tells."""
    return _protocols({"auto_config": {"http_protocol_options": {}, **_http2_options(KEEPALIVE)}})


def _http2_options(keepalive: Mapping[str, str]) -> dict[str, Any]:
    return {
        "http2_protocol_options": {
            "connection_keepalive": dict(keepalive),
            "initial_stream_window_size": 65536,
            "initial_connection_window_size": 1048576,
        }
    }


def _explicit(options: Mapping[str, Any]) -> dict[str, Any]:
    return _protocols({"explicit_http_config": dict(options)})


def _protocols(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions", **options}
