"""The Envoy beside a replica that is reached over the network.

A replica speaks plain text on loopback only. The proxy listens at the node's address, on the same
ports, with the certificate of the node, and lets in only those who show a certificate of the
platform with one of the names that the plan lists. It speaks the replica's protocols, because only
so it can tell the gateway that a request has not reached the replica.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from components.certificates.envoy_secrets import (
    AUTHORITY,
    CERTIFICATE,
    TLS,
    TLS_PARAMETERS,
    secret,
    secret_files,
)
from components.nomad.addresses import IN_FILES
from components.nomad.jobspec import LEFT_DELIMITER, RIGHT_DELIMITER, File, Task
from slipway.plan.platform import TlsProxySpec

NAME = "tls-proxy"
LOOPBACK = "127.0.0.1"
MEBIBYTE = 1 << 20
HTTP2_PORTS = ("grpc",)
LAST_BYTES_S = 5  # for clients that read slowly, after the replica has ended
# The gateway's health check (services/xds/control_plane/resources/other_hosts.py): it asks whether
# this host lives, whatever the replica does. Consul's checks ask the replica.
CHECK_PATH = "/slipway/proxy"
BUFFER_BYTES = 32768
STREAM_WINDOW_BYTES, CONNECTION_WINDOW_BYTES = 65536, 1048576
UNLIMITED = 2**32 - 1
UNREACHABLE_HEADER = "x-slipway-replica-unreachable"
# The folder of the node's certificate, which its Nomad client announces.
NODE_CERTIFICATE = f"{LEFT_DELIMITER} env `meta.certificate` {RIGHT_DELIMITER}"
_FILTERS = "type.googleapis.com/envoy.extensions.filters"
_Json = dict[str, Any]


def proxy_task(proxy: TlsProxySpec, ports: Iterable[str]) -> Task:
    """A task for the ports with these labels. It starts before the replica and ends after it, so
    that running requests can finish."""
    labels = tuple(ports)
    templates = (IN_FILES, *map(_port, labels))
    document = json.dumps(proxy_bootstrap(proxy, labels), indent=2, sort_keys=True) + "\n"
    return Task(
        name=NAME,
        command=f"${{meta.runtime}}/tools/bin/{proxy.tool}/envoy",
        args=(
            *("--config-path", "local/envoy.json"),
            *("--concurrency", "1"),
            "--disable-hot-restart",  # its socket names are machine-wide
            *("--log-level", "warning"),
        ),
        files=(
            *secret_files(NODE_CERTIFICATE, templates=(NODE_CERTIFICATE,)),
            File(path="local/envoy.json", content=document, templates=templates),
        ),
        cpu_mhz=proxy.cpu_mhz,
        memory_mb=proxy.memory_bytes // MEBIBYTE,
        runs_beside_the_others=True,
        shutdown_delay_s=LAST_BYTES_S,
    )


def proxy_bootstrap(proxy: TlsProxySpec, ports: tuple[str, ...]) -> _Json:
    """Envoy's bootstrap: no admin interface, and nothing from a control plane."""
    return {
        "node": {"id": NAME, "cluster": NAME},  # without them Envoy reads no secrets
        "static_resources": {
            "listeners": [_listener(proxy, label) for label in ports],
            "clusters": [_cluster(label) for label in ports],
        },
    }


def _listener(proxy: TlsProxySpec, label: str) -> _Json:
    filters = [
        {
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": _connection_manager(label),
        }
    ]
    return {
        "name": label,
        "address": _socket_address(IN_FILES, label),
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "filter_chains": [
            {"transport_socket": _transport_socket(proxy, label), "filters": filters}
        ],
    }


def _connection_manager(label: str) -> _Json:
    """Passes on every request as it is; limits and timeouts are the gateway's."""
    router = {"@type": f"{_FILTERS}.http.router.v3.Router", "suppress_envoy_headers": True}
    alive = {"match": {"path": CHECK_PATH}, "direct_response": {"status": 200}}
    route = {"match": {"prefix": "/"}, "route": {"cluster": label, "timeout": "0s"}}
    return {
        "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": label,
        "codec_type": "HTTP2" if label in HTTP2_PORTS else "AUTO",
        "http2_protocol_options": {
            "initial_stream_window_size": STREAM_WINDOW_BYTES,
            "initial_connection_window_size": CONNECTION_WINDOW_BYTES,
        },
        "common_http_protocol_options": {"idle_timeout": "0s"},
        "stream_idle_timeout": "0s",
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "skip_xff_append": True,
        "server_header_transformation": "PASS_THROUGH",
        "local_reply_config": {"mappers": [_unreachable(), _broken_off()]},
        "route_config": {
            "name": label,
            "virtual_hosts": [{"name": label, "domains": ["*"], "routes": [alive, route]}],
        },
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }


def _unreachable() -> _Json:
    """While the replica does not listen, the answer says that nothing has begun to run: then the
    gateway asks another replica (services/xds/control_plane/resources/routes.py)."""
    connection_failed = {"response_flag_filter": {"flags": ["UF"]}}
    header = {"header": {"key": UNREACHABLE_HEADER, "value": "true"}}
    return {"filter": connection_failed, "headers_to_add": [header]}


def _broken_off() -> _Json:
    """A replica that ends within a gRPC request: by default the answer would be UNAVAILABLE, on
    which the gateway asks another replica, and a generation would run twice. This is UNKNOWN."""
    is_grpc = {"name": "content-type", "string_match": {"prefix": "application/grpc"}}
    return {"filter": {"header_filter": {"header": is_grpc}}, "status_code": 500}


def _transport_socket(proxy: TlsProxySpec, label: str) -> _Json:
    """Offers HTTP/2 on every port: its pings tell the gateway that the host lives."""
    protocols = ["h2"] if label in HTTP2_PORTS else ["h2", "http/1.1"]
    clients = [{"san_type": "DNS", "matcher": {"exact": name}} for name in proxy.clients]
    # Consul's agent on the same node shows the node's certificate when it checks the replica.
    own_node = {"san_type": "IP_ADDRESS", "matcher": {"exact": IN_FILES}}
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TLS}.DownstreamTlsContext",
            "require_client_certificate": True,
            "common_tls_context": {
                "alpn_protocols": protocols,
                "tls_params": TLS_PARAMETERS,
                "tls_certificate_sds_secret_configs": [secret(CERTIFICATE)],
                "combined_validation_context": {
                    "default_validation_context": {
                        "match_typed_subject_alt_names": [*clients, own_node]
                    },
                    "validation_context_sds_secret_config": secret(AUTHORITY),
                },
            },
        },
    }


def _cluster(label: str) -> _Json:
    """The replica, without limits: those are the gateway's."""
    version = "http2_protocol_options" if label in HTTP2_PORTS else "http_protocol_options"
    limits = ("max_connections", "max_pending_requests", "max_requests")
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {
        "name": label,
        "type": "STATIC",
        "connect_timeout": "1s",
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, UNLIMITED)]},
        "typed_extension_protocol_options": {
            options: {
                "@type": f"type.googleapis.com/{options}",
                "explicit_http_config": {version: {}},
            }
        },
        "load_assignment": {
            "cluster_name": label,
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": _socket_address(LOOPBACK, label)}}]}
            ],
        },
    }


def _socket_address(address: str, label: str) -> _Json:
    # Envoy reads numbers from text, too.
    return {"socket_address": {"address": address, "port_value": _port(label)}}


def _port(label: str) -> str:
    return f"{LEFT_DELIMITER} env `NOMAD_PORT_{label}` {RIGHT_DELIMITER}"
