"""Snapshots of routing tables; what has not changed since the last one is not built again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from . import protobuf
from .resources.clusters import clusters
from .resources.listener import GatewayAddress, listener
from .resources.routes import NO_MODEL, default_scope, names_of, scope_of
from .resources.runtime import LAYERS, layer_of, limits
from .routing import Endpoint, Route, RoutingTable
from .snapshot import Destination, Resource, Resources, ResourceType, Snapshot

Endpoints = Mapping[str, tuple[Endpoint, ...]]


def build(table: RoutingTable, gateway: GatewayAddress, *, created_s: float = 0.0) -> Snapshot:
    """The snapshot of a routing table, from nothing."""
    return SnapshotBuilder(gateway).build(table, created_s=created_s)


class SnapshotBuilder:
    """Builds one snapshot after the other. A change of endpoints costs what its own clusters cost;
    one of routes passes over all models, and builds those that changed."""

    def __init__(self, gateway: GatewayAddress) -> None:
        entry = listener(gateway)
        self._listener = {entry["name"]: Resource(entry["name"], protobuf.listener(entry))}
        self._served: tuple[Route, ...] = ()
        self._routes: Mapping[str, Route] = {}
        self._names: Mapping[str, Route] = {}
        self._clusters: Resources = {}
        self._models: Mapping[str, str] = {}  # by cluster
        self._on_other_hosts: set[str] = set()  # clusters
        self._scopes: Resources = {NO_MODEL: _default_scope({})}
        self._destinations: Mapping[str, Destination] = {NO_MODEL: Destination()}
        self._known: Endpoints = {}
        self._endpoints: Resources = {}
        self._by_layer: Mapping[str, tuple[Route, ...]] = {}
        self._layers: Resources = {name: _layer(name, (), {}) for name in LAYERS}

    def build(self, table: RoutingTable, *, created_s: float = 0.0) -> Snapshot:
        touched = self._take_routes(table.routes)
        moved = self._take_endpoints(table.endpoints)
        touched |= {layer_of(self._models[cluster]) for cluster in moved}
        self._layers = {
            **self._layers,
            **{n: _layer(n, self._by_layer.get(n, ()), table.endpoints) for n in touched},
        }
        return Snapshot(
            resources={
                ResourceType.RUNTIME: self._layers,
                ResourceType.CLUSTER: self._clusters,
                ResourceType.ENDPOINTS: self._endpoints,
                ResourceType.LISTENER: self._listener,
                ResourceType.ROUTE: self._scopes,
            },
            destinations=self._destinations,
            created_s=created_s,
        )

    def _take_routes(self, served: tuple[Route, ...]) -> set[str]:
        """Returns the layers that have limits of a route that came, went or changed."""
        if served == self._served:
            return set()
        self._served = served
        routes = {route.model: route for route in served}
        kept = {model for model, route in routes.items() if self._routes.get(model) == route}
        gone = self._routes.keys() - kept
        names = names_of(routes.values())
        self._clusters = {
            name: resource
            for route in routes.values()
            for name, resource in self._clusters_of(route, kept).items()
        }
        self._scopes = {
            NO_MODEL: self._default_scope(names),
            **{name: self._scope(name, route, kept) for name, route in names.items()},
        }
        self._routes, self._names = routes, names
        self._models = {name: r.model for r in routes.values() for name in r.clusters()}
        self._on_other_hosts = {
            name for r in routes.values() for name in r.clusters_on_other_hosts()
        }
        self._destinations = {NO_MODEL: Destination()} | {
            name: Destination(route.model, route.destinations) for name, route in names.items()
        }
        self._by_layer = _by_layer(routes.values())
        return {layer_of(model) for model in gone | (routes.keys() - kept)}

    def _clusters_of(self, route: Route, kept: set[str]) -> Resources:
        if route.model in kept:
            return {name: self._clusters[name] for name in route.clusters()}
        return {
            name: Resource(name, protobuf.cluster(document))
            for name, document in clusters((route,)).items()
        }

    def _scope(self, name: str, route: Route, kept: set[str]) -> Resource:
        owner = self._names.get(name)
        if owner is not None and owner.model == route.model and route.model in kept:
            return self._scopes[name]
        return Resource(name, protobuf.scope(scope_of(name, route)), frozenset(_needs(route)))

    def _default_scope(self, names: Mapping[str, Route]) -> Resource:
        same = _spoken(names) == _spoken(self._names)
        return self._scopes[NO_MODEL] if same else _default_scope(names)

    def _take_hosts(self, on_other_hosts: set[str]) -> None:
        """Assignments say where health checks ask, which is the proxy on another host."""
        elsewhere = self._on_other_hosts ^ on_other_hosts
        self._endpoints = {n: r for n, r in self._endpoints.items() if n not in elsewhere}
        self._on_other_hosts = on_other_hosts

    def _take_endpoints(self, endpoints: Endpoints) -> set[str]:
        """Returns the clusters whose endpoints are not as before."""
        known = self._known
        # Most are the same object as before, in a table of thousands.
        other = {name for name, members in endpoints.items() if known.get(name) is not members}
        other |= known.keys() - endpoints.keys()
        moved = {name for name in other if known.get(name) != endpoints.get(name)}
        moved = (moved & self._clusters.keys()) | (self._clusters.keys() - self._endpoints.keys())
        if moved or self._endpoints.keys() != self._clusters.keys():
            kept = {n: r for n, r in self._endpoints.items() if n in self._clusters}
            self._endpoints = kept | {
                name: self._assignment(name, endpoints.get(name, ())) for name in moved
            }
        self._known = endpoints
        return moved

    def _assignment(self, cluster: str, endpoints: Iterable[Endpoint]) -> Resource:
        members, far = sorted(endpoints), cluster in self._on_other_hosts
        asked = {each: each.port if far else each.liveness_port for each in members}
        ports = {each: port for each, port in asked.items() if port}
        return Resource(cluster, protobuf.cluster_load_assignment(cluster, members, ports))


def _layer(name: str, routes: Iterable[Route], endpoints: Endpoints) -> Resource:
    return Resource(name, protobuf.runtime(name, limits(routes, endpoints)))


def _default_scope(names: Mapping[str, Route]) -> Resource:
    return Resource(NO_MODEL, protobuf.scope(default_scope(names)))


def _by_layer(routes: Iterable[Route]) -> Mapping[str, tuple[Route, ...]]:
    found: dict[str, tuple[Route, ...]] = {}
    for route in routes:
        name = layer_of(route.model)
        found[name] = (*found.get(name, ()), route)
    return found


def _spoken(names: Mapping[str, Route]) -> dict[str, tuple[str, ...]]:
    """All that the default scope says about models."""
    return {name: route.protocols for name, route in names.items()}


def _needs(route: Route) -> Iterator[str]:
    for backend in route.backends:
        if backend.weight:
            yield from (backend.cluster(protocol) for protocol in route.protocols)
