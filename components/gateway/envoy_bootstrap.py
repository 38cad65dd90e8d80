"""Envoy's bootstrap: its control plane, and the port where it can be observed.

The listener for clients, its clusters and its routes come over ADS (services/xds).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.certificates.identities import node_id
from components.envoy.http import socket_address
from components.envoy.tls import to_server
from components.gateway.metrics_listener import (
    admin_cluster,
    admin_interface,
    metrics_listener,
)
from components.nomad.addresses import in_files
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import EnvoyPlan, PeerNames

XDS_CLUSTER = "xds"
# The Runtime resources that services/xds serves; each has the request limits of some models.
RUNTIME_LAYERS = tuple(f"slipway-{number:02}" for number in range(32))

MAX_HEAP_BYTES = 1024 * 1024 * 1024
MAX_DOWNSTREAM_CONNECTIONS = 10_000

# A generation may last minutes; Envoy's default buckets are made for web pages.
_LATENCY_BUCKETS_MS = [1, 5, 10, 25, 50, 100, 250, 500]
_LATENCY_BUCKETS_MS += [1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000]

# What operators and the autoscaler read of a cluster. Outlier detection counts by its own gauge:
# without it more replicas than allowed would be ejected.
CLUSTER_STATS = (
    "upstream_rq_active",
    "upstream_rq_total",
    "upstream_rq_2xx",
    "upstream_rq_4xx",
    "upstream_rq_5xx",
    "upstream_rq_time",
    "upstream_rq_pending_active",
    "upstream_rq_pending_overflow",
    "upstream_rq_retry",
    "upstream_rq_retry_overflow",
    "upstream_rq_rx_reset",
    "upstream_rq_per_try_idle_timeout",
    "upstream_cx_active",
    "upstream_cx_connect_fail",
    "membership_total",
    "membership_healthy",
    "health_check.success",
    "health_check.failure",
    "circuit_breakers.default.rq_open",
    "outlier_detection.ejections_active",
)
# All of these, by the beginnings of their names: none of them grows with the number of models.
_WHOLE_STATS = (
    "access_logs.",
    "cluster_manager.",
    "control_plane.",
    "filesystem.",
    "http.",
    "listener.",
    "listener_manager.",
    "main_thread.",
    "overload.",
    "runtime.",
    "server.",
    "slipway.",
    "sds.",
    "workers.",
)

_TYPE = "type.googleapis.com/envoy"
_Json = dict[str, Any]


def envoy_bootstrap(
    envoy: EnvoyPlan,
    peers: PeerNames,
    *,
    xds_addresses: Sequence[str] = (),
    cluster: str = "slipway",
) -> _Json:
    """The bootstrap document in Envoy's JSON form.

    The names in `peers` say who may read Envoy's statistics. `xds_addresses` are the IP addresses
    of the control plane's replicas, by default the one beside the gateway. The node id is the
    gateway's address; `--service-node` overrides it.
    """
    return {
        "node": {"id": node_id(in_files(envoy.listener)), "cluster": cluster},
        "admin": admin_interface(),
        "dynamic_resources": _dynamic_resources(),
        "static_resources": {
            "listeners": [
                metrics_listener(envoy.metrics, clients=(peers.prometheus, peers.operator))
            ],
            "clusters": [
                _xds_cluster(tuple(xds_addresses) or (in_files(envoy.xds).host,), envoy.xds),
                admin_cluster(),
            ],
        },
        "layered_runtime": _layered_runtime(),
        "overload_manager": _overload_manager(),
        "stats_config": _stats_config(),
    }


def _dynamic_resources() -> _Json:
    over_ads = {"ads": {}, "resource_api_version": "V3"}
    return {
        "ads_config": {
            "api_type": "DELTA_GRPC",
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [
                {
                    "envoy_grpc": {
                        "cluster_name": XDS_CLUSTER,
                        # Reconnects within a second of the control plane's return; by default
                        # within ten.
                        "retry_policy": {
                            "retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"}
                        },
                    }
                }
            ],
        },
        "cds_config": over_ads,
        "lds_config": over_ads,
    }


def _xds_cluster(addresses: tuple[str, ...], xds: Endpoint) -> _Json:
    protocol: _Json = {
        "@type": f"{_TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {
            "http2_protocol_options": {
                # The host of the control plane may die without a word.
                "connection_keepalive": {"interval": "2s", "timeout": "3s"},
            }
        },
    }
    members = [{"endpoint": {"address": socket_address(a, xds.port)}} for a in addresses]
    return {
        "name": XDS_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "1s",
        **({"transport_socket": to_server(xds.server_name)} if xds.server_name else {}),
        "load_assignment": {"cluster_name": XDS_CLUSTER, "endpoints": [{"lb_endpoints": members}]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol
        },
    }


def _layered_runtime() -> _Json:
    """The control plane's layers carry request limits; an operator's override wins."""
    rtds_config = {"ads": {}, "resource_api_version": "V3"}
    return {
        "layers": [
            {
                "name": "static",
                "static_layer": {
                    # Keeps a router's timeout from being reported as UNAVAILABLE, which clients
                    # would retry.
                    "envoy.reloadable_features.grpc_timeout_returns_deadline_exceeded": True,
                },
            },
            *(
                {"name": name, "rtds_layer": {"name": name, "rtds_config": rtds_config}}
                for name in RUNTIME_LAYERS
            ),
            {"name": "admin", "admin_layer": {}},
        ]
    }


def _overload_manager() -> _Json:
    """Sheds load before the kernel kills the process."""
    heap = "envoy.resource_monitors.fixed_heap"
    connections = "envoy.resource_monitors.global_downstream_max_connections"
    monitors = f"{_TYPE}.extensions.resource_monitors"
    return {
        "refresh_interval": "0.25s",
        "resource_monitors": [
            {
                "name": heap,
                "typed_config": {
                    "@type": f"{monitors}.fixed_heap.v3.FixedHeapConfig",
                    "max_heap_size_bytes": MAX_HEAP_BYTES,
                },
            },
            {
                "name": connections,
                "typed_config": {
                    "@type": f"{monitors}.downstream_connections.v3.DownstreamConnectionsConfig",
                    "max_active_downstream_connections": MAX_DOWNSTREAM_CONNECTIONS,
                },
            },
        ],
        "actions": [
            _action("envoy.overload_actions.shrink_heap", heap, 0.95),
            _action("envoy.overload_actions.stop_accepting_requests", heap, 0.98),
        ],
    }


def _action(name: str, monitor: str, threshold: float) -> _Json:
    return {"name": name, "triggers": [{"name": monitor, "threshold": {"value": threshold}}]}


def _stats_config() -> _Json:
    matches = ({"suffix": "_rq_time"}, {"prefix": "slipway."})
    return {
        "histogram_bucket_settings": [
            {"match": match, "buckets": _LATENCY_BUCKETS_MS} for match in matches
        ],
        "stats_matcher": {"inclusion_list": {"patterns": _kept_stats()}},
    }


def _kept_stats() -> list[_Json]:
    """Of a cluster Envoy would keep about 196, and a gateway has two clusters for each model."""
    of_clusters = "|".join(name.replace(".", r"\.") for name in CLUSTER_STATS)
    return [
        *({"prefix": prefix} for prefix in _WHOLE_STATS),
        {"safe_regex": {"regex": rf"cluster\..+\.({of_clusters})"}},
    ]
