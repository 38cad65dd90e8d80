"""The Envoy beside a replica that is reached over the network.

A replica speaks plain text on loopback only. The proxy listens at the node's address, on the same
ports, with the certificate of the node, and lets in only those who show a certificate of the
platform with one of the names that the plan lists. It speaks the replica's protocols, because only
so it can tell the gateway that a request has not reached the replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from components.certificates.envoy_secrets import secret_files
from components.envoy.http import cluster, connection_manager, forward, socket_address
from components.envoy.sidecar import bootstrap_file, port, sidecar
from components.envoy.tls import from_clients
from components.nomad.addresses import IN_FILES, LOOPBACK
from components.nomad.jobspec import LEFT_DELIMITER, RIGHT_DELIMITER, Task
from slipway.plan.platform import TlsProxySpec

HTTP2_PORTS = ("grpc",)
LAST_BYTES_S = 5  # for clients that read slowly, after the replica has ended
# The gateway's health check (services/xds/control_plane/resources/other_hosts.py) asks whether this
# host lives and the engine moves; the engine's watcher answers (services/program/liveness/page.py).
CHECK_PATH = "/slipway/proxy"
LIVENESS, LIVENESS_PATH = "liveness", "/slipway/live"
BUFFER_BYTES = 32768
STREAM_WINDOW_BYTES, CONNECTION_WINDOW_BYTES = 65536, 1048576
UNREACHABLE_HEADER = "x-slipway-replica-unreachable"
# The folder of the node's certificate, which its Nomad client announces.
NODE_CERTIFICATE = f"{LEFT_DELIMITER} env `meta.certificate` {RIGHT_DELIMITER}"
_Json = dict[str, Any]
_ALIVE: _Json = {"match": {"path": CHECK_PATH}, "direct_response": {"status": 200}}
_MOVES: _Json = {
    "match": {"path": CHECK_PATH},
    "route": {**forward(LIVENESS), "prefix_rewrite": LIVENESS_PATH},
}


def proxy_task(proxy: TlsProxySpec, ports: Iterable[str]) -> Task:
    """A task for the ports with these labels. The liveness page is behind all the others."""
    labels = tuple(ports)
    own = [_MOVES if LIVENESS in labels else _ALIVE]
    bootstrap = bootstrap_file(
        [_listener(proxy, label, own) for label in labels if label != LIVENESS],
        [_cluster(label) for label in labels],
        templates=(IN_FILES, *map(port, labels)),
    )
    task = sidecar(
        bootstrap,
        secret_files(NODE_CERTIFICATE, templates=(NODE_CERTIFICATE,)),
        tool=proxy.tool,
        cpu_mhz=proxy.cpu_mhz,
        memory_bytes=proxy.memory_bytes,
    )
    return replace(task, shutdown_delay_s=LAST_BYTES_S)


def _listener(proxy: TlsProxySpec, label: str, own: Sequence[_Json]) -> _Json:
    # HTTP/2 on every port: its pings tell the gateway that the host lives.
    protocols = ["h2"] if label in HTTP2_PORTS else ["h2", "http/1.1"]
    tls = from_clients(proxy.clients, own_address=IN_FILES, protocols=protocols)
    return {
        "name": label,
        "address": socket_address(IN_FILES, port(label)),
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "filter_chains": [{"transport_socket": tls, "filters": [_connection_manager(label, own)]}],
    }


def _connection_manager(label: str, own: Sequence[_Json]) -> _Json:
    """Passes on every request as it is, except those of its `own` routes; limits and timeouts are
    the gateway's."""
    return connection_manager(
        label,
        [*own, {"match": {"prefix": "/"}, "route": forward(label)}],
        {
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
            "local_reply_config": {"mappers": [_unreachable()]},
        },
    )


def _unreachable() -> _Json:
    """While the replica does not listen (UF), or if it ends before it has sent a header (UC, UR),
    the answer says so: nothing was shown to the client, and the gateway asks another replica
    (services/xds/control_plane/resources/routes.py)."""
    no_header = {"response_flag_filter": {"flags": ["UF", "UC", "UR"]}}
    header = {"header": {"key": UNREACHABLE_HEADER, "value": "true"}}
    return {"filter": no_header, "headers_to_add": [header]}


def _cluster(label: str) -> _Json:
    """The replica, without limits: those are the gateway's."""
    version = "http2_protocol_options" if label in HTTP2_PORTS else "http_protocol_options"
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    protocol = {
        "@type": f"type.googleapis.com/{options}",
        "explicit_http_config": {version: {}},
    }
    return cluster(
        label,
        socket_address(LOOPBACK, port(label)),
        {
            "per_connection_buffer_limit_bytes": BUFFER_BYTES,
            "typed_extension_protocol_options": {options: protocol},
        },
    )
