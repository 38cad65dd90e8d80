"""GET /status: each model with its backends and endpoints, and what each Envoy has acknowledged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .resources.routes import names_of
from .routing import Route, RoutingTable
from .server import Envoy
from .snapshot import ResourceType, Snapshot

SCHEMA_VERSION = 1
_Json = dict[str, Any]


def status(
    table: RoutingTable | None,
    snapshot: Snapshot | None,
    envoys: Collection[Envoy],
    *,
    problems: dict[str, str],
    consul_stale_s: float,
    now_s: float,
) -> _Json:
    """The document of schemas/status.schema.json, read by `slipway up`, `start` and `status`.

    A model is `acknowledged` when at least one Envoy is connected and every connected one holds
    the current route and, for each backend, the current cluster and endpoints. It is `ready` if, in
    addition, each backend with weight has a healthy endpoint for every protocol of the model.
    """
    models: _Json = {}
    if table is not None and snapshot is not None:
        owners = names_of(table.routes)
        models = {
            route.model: _model(route, owners, table, snapshot, envoys) for route in table.routes
        }
    return {
        "schema_version": SCHEMA_VERSION,
        "consul": {"stale_s": round(consul_stale_s, 3), "synced": table is not None},
        "envoys": [_envoy(envoy, now_s) for envoy in sorted(envoys, key=lambda e: e.node)],
        "models": models,
        "refused_routes": dict(sorted(problems.items())),
    }


def _model(
    route: Route,
    owners: Mapping[str, Route],
    table: RoutingTable,
    snapshot: Snapshot,
    envoys: Collection[Envoy],
) -> _Json:
    clusters = {name: _cluster(name, table, snapshot, envoys) for name in route.clusters()}
    own = [name for name in route.names if owners[name].model == route.model]
    held = [_holders(envoys, snapshot, ResourceType.ROUTE, name) for name in own]
    routed = {node: all(each[node] for each in held) for node in held[0]}
    acknowledged = bool(envoys) and all(
        [*routed.values(), *(ok for c in clusters.values() for ok in c["acknowledged_by"].values())]
    )
    serving = all(
        clusters[backend.cluster(protocol)]["healthy"]
        for backend in route.backends
        for protocol in route.protocols
        if backend.weight
    )
    return {
        "aliases": list(route.aliases),
        "taken_aliases": {
            name: owners[name].model for name in sorted(route.names) if name not in own
        },
        "acknowledged": acknowledged,
        "ready": acknowledged and serving,
        "route": {
            "version": snapshot.version(ResourceType.ROUTE, route.model),
            "acknowledged_by": routed,
        },
        "backends": [
            {
                "service": backend.service,
                "weight": backend.weight,
                "clusters": {
                    backend.cluster(protocol): clusters[backend.cluster(protocol)]
                    for protocol in route.protocols
                },
            }
            for backend in route.backends
        ],
    }


def _cluster(
    name: str, table: RoutingTable, snapshot: Snapshot, envoys: Collection[Envoy]
) -> _Json:
    endpoints = table.endpoints.get(name, ())
    warm = _holders(envoys, snapshot, ResourceType.CLUSTER, name)
    fed = _holders(envoys, snapshot, ResourceType.ENDPOINTS, name)
    return {
        "version": snapshot.version(ResourceType.ENDPOINTS, name),
        "healthy": sum(endpoint.healthy for endpoint in endpoints),
        "endpoints": [
            {"address": e.address, "port": e.port, "healthy": e.healthy, "held": e.held}
            for e in endpoints
        ],
        "acknowledged_by": {node: warm[node] and fed[node] for node in warm},
    }


def _holders(
    envoys: Collection[Envoy], snapshot: Snapshot, kind: ResourceType, name: str
) -> dict[str, bool]:
    """Node id -> whether all its streams acknowledged the current version."""
    version = snapshot.version(kind, name)
    holders: dict[str, bool] = {}
    for envoy in sorted(envoys, key=lambda envoy: envoy.node):
        holds = version is not None and envoy.stream.acknowledged(kind, name) == version
        holders[envoy.node] = holders.get(envoy.node, True) and holds
    return holders


def _envoy(envoy: Envoy, now_s: float) -> _Json:
    return {
        "node": envoy.node,
        "peer": envoy.peer,
        "connected_s": round(now_s - envoy.connected_s, 3),
        "quarantined": dict(sorted(envoy.stream.quarantined().items())),
    }
