"""The Envoy beside the Nomad Autoscaler, which speaks TLS for it in both directions.

Version 0.5.0 has no TLS of its own where it serves its metrics (agent/http/server.go). Where it
asks Prometheus it can send a password and verify the server, but cannot show a certificate
(plugins/builtin/apm/prometheus/plugin/plugin.go). So it speaks plain HTTP with this Envoy only, on
loopback:

    Prometheus, Consul's check  -- TLS -->  listener `http`        -->  the autoscaler
    the autoscaler              ------->    listener `prometheus`  -- TLS -->  Prometheus

The second listener would lend the autoscaler's certificate to every program of the host. It asks
for a password, which only this job knows.
"""

from __future__ import annotations

from typing import Any

from components.certificates.envoy_secrets import secret_files
from components.certificates.task import FOLDER, certificate_files, password
from components.envoy.http import (
    answer,
    cluster,
    connection_manager,
    forward,
    read_only,
    socket_address,
)
from components.envoy.sidecar import bootstrap_file, port, sidecar
from components.envoy.tls import from_clients, to_server
from components.nomad.addresses import IN_FILES, in_files, on_loopback
from components.nomad.jobspec import File, Task
from slipway.plan.platform import PlatformPlan

# Part of what the plan reserves for the platform's jobs (planner/fleet/packing.py).
MEMORY_BYTES = 96 << 20
CPU_MHZ = 30
SERVED = "http"  # the port for readers of the autoscaler's metrics
AUTOSCALER, PROMETHEUS = "autoscaler", "prometheus"  # the ports on loopback
METRICS_PATH, HEALTH_PATH = "/v1/metrics", "/v1/health"
QUERY_PATHS = ("/api/v1/query_range", "/api/v1/query")
PASSWORD_HEADER = "authorization"  # noqa: S105 - the header's name
_Json = dict[str, Any]


def proxy_task(plan: PlatformPlan, job_id: str) -> Task:
    return sidecar(
        _bootstrap(plan, job_id),
        (*certificate_files(job_id, change_mode="noop"), *secret_files(FOLDER)),
        tool=f"envoy-{plan.tools['envoy']}",
        cpu_mhz=CPU_MHZ,
        memory_bytes=MEMORY_BYTES,
    )


def query_url(plan: PlatformPlan) -> str:
    """The URL of Prometheus in the autoscaler's files."""
    return f"http://{on_loopback(plan.autoscaling.autoscaler)}:{port(PROMETHEUS)}"


def _bootstrap(plan: PlatformPlan, job_id: str) -> File:
    prometheus = in_files(plan.monitoring.prometheus)
    loopback = on_loopback(plan.autoscaling.autoscaler)
    secret = password(job_id)
    return bootstrap_file(
        [
            _metrics_listener(plan),
            _query_listener(socket_address(loopback, port(PROMETHEUS)), secret),
        ],
        [
            cluster(AUTOSCALER, socket_address(loopback, port(AUTOSCALER)), {}),
            cluster(
                PROMETHEUS,
                socket_address(prometheus.host, prometheus.port),
                {"transport_socket": to_server(plan.peers.prometheus)},
            ),
        ],
        templates=(IN_FILES, port(AUTOSCALER), port(PROMETHEUS), secret),
        change_mode="restart",
    )


def _metrics_listener(plan: PlatformPlan) -> _Json:
    """Passes on the metrics page only: other pages make the autoscaler reload its configuration."""
    endpoint = in_files(plan.autoscaling.autoscaler)
    paths = (METRICS_PATH, HEALTH_PATH)
    routes = read_only(paths, AUTOSCALER, elsewhere=f"only {' and '.join(paths)}\n")
    tls = from_clients([plan.peers.prometheus], own_address=endpoint.host)
    return {
        "name": SERVED,
        "address": socket_address(endpoint.host, endpoint.port),
        "filter_chains": [
            {"transport_socket": tls, "filters": [_connection_manager(SERVED, routes)]}
        ],
    }


def _query_listener(address: _Json, secret: str) -> _Json:
    with_password = {"name": PASSWORD_HEADER, "string_match": {"exact": secret}}
    routes = [
        {
            "match": {"path": path, "headers": [with_password]},
            "route": forward(PROMETHEUS),
            "request_headers_to_remove": [PASSWORD_HEADER],
        }
        for path in QUERY_PATHS
    ]
    refused = "only the autoscaler's queries, with its password\n"
    routes.append({"match": {"prefix": "/"}, "direct_response": answer(403, refused)})
    return {
        "name": PROMETHEUS,
        "address": address,
        "filter_chains": [{"filters": [_connection_manager(PROMETHEUS, routes)]}],
    }


def _connection_manager(name: str, routes: list[_Json]) -> _Json:
    return connection_manager(name, routes, {"codec_type": "HTTP1", "normalize_path": False})
