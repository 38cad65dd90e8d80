"""Clusters: one per backend and protocol. They do not change with the number of replicas."""

from __future__ import annotations

from typing import Any

from ..routing import GRPC, HTTP, Backend, Route
from .upstream_tls import transport_socket

_TYPE = "type.googleapis.com/envoy.extensions"


def clusters(routes: tuple[Route, ...]) -> dict[str, dict[str, Any]]:
    """Envoy clusters by name, for every backend of every route."""
    options = {HTTP: _http1(), GRPC: _http2()}
    return {
        backend.cluster(protocol): {
            **_cluster(backend.cluster(protocol), route, options[protocol]),
            **_tls(backend),
        }
        for route in routes
        for backend in route.backends
        for protocol in route.protocols
    }


def _cluster(name: str, route: Route, protocol_options: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
        "connect_timeout": "1s",
        "per_connection_buffer_limit_bytes": 32768,
        "ignore_health_on_host_removal": True,
        # The control plane guards against empty clusters itself, so no traffic goes to known-bad
        # replicas.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0.0}},
        "load_balancing_policy": _least_request(),
        "circuit_breakers": {"thresholds": [_threshold(route)]},
        "outlier_detection": _outlier_detection(),
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol_options
        },
    }


def _tls(backend: Backend) -> dict[str, Any]:
    name = backend.server_name
    return {} if name is None else {"transport_socket": transport_socket(name)}


def _threshold(route: Route) -> dict[str, Any]:
    """Limits for one replica: resources/runtime.py raises them as replicas come and go."""
    limit = route.max_concurrent_requests_per_replica
    return {
        "priority": "DEFAULT",
        "max_connections": 1_000_000,
        "max_requests": limit,
        "max_pending_requests": limit,
        "retry_budget": {"budget_percent": {"value": 20.0}, "min_retry_concurrency": 3},
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
        "max_ejection_percent": 50,
    }


def _least_request() -> dict[str, Any]:
    config = {
        "@type": f"{_TYPE}.load_balancing_policies.least_request.v3.LeastRequest",
        "choice_count": 2,
    }
    name = "envoy.load_balancing_policies.least_request"
    return {"policies": [{"typed_extension_config": {"name": name, "typed_config": config}}]}


def _http1() -> dict[str, Any]:
    """vLLM's server speaks HTTP/1.1 only."""
    return {
        "@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http_protocol_options": {}},
    }


def _http2() -> dict[str, Any]:
    keepalive = {"interval": "20s", "timeout": "5s"}
    return {
        "@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {
            "http2_protocol_options": {
                "connection_keepalive": keepalive,
                "initial_stream_window_size": 65536,
                "initial_connection_window_size": 1048576,
            }
        },
    }
