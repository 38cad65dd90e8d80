"""Envoy with round robin and nothing else: no control plane, no models, no limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.gateway.contender import Place, Running
from bench.gateway.load import Address
from bench.gateway.own_gateway import envoy

PORT = 8080
_MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = "envoy.extensions.filters.http.router.v3.Router"


@contextmanager
def round_robin(program: Path, place: Place) -> Iterator[Running]:
    with envoy(program, _bootstrap(place.host, place.replicas), place.folder) as process:
        log = place.folder / "envoy.log"
        yield Running(address=(place.host, PORT), processes=(process,), log=log)


def _bootstrap(host: str, replicas: Sequence[Address]) -> dict[str, Any]:
    members = [{"endpoint": {"address": _address(*replica)}} for replica in replicas]
    cluster = {
        "name": "replicas",
        "type": "STATIC",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": {"cluster_name": "replicas", "endpoints": [{"lb_endpoints": members}]},
    }
    route = {"match": {"prefix": "/"}, "route": {"cluster": "replicas", "timeout": "0s"}}
    manager = {
        "@type": f"type.googleapis.com/{_MANAGER}",
        "stat_prefix": "plain",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"type.googleapis.com/{_ROUTER}"},
            }
        ],
    }
    filters = [{"name": "http", "typed_config": manager}]
    listener = {"address": _address(host, PORT), "filter_chains": [{"filters": filters}]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
