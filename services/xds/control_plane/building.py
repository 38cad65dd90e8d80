"""Snapshots of routing tables; what has not changed since the last one is not built again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from . import protobuf
from .resources.clusters import clusters
from .resources.listener import GatewayAddress, listener
from .resources.routes import NO_MODEL, default_scope, names_of, scope_of
from .resources.runtime import LAYERS, layer_of, limits
from .routing import EQUAL_WEIGHT, Endpoint, Route, RoutingTable
from .snapshot import Destination, Resource, Resources, ResourceType, Snapshot

Endpoints = Mapping[str, tuple[Endpoint, ...]]
T = TypeVar("T")


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
        self._keyed: set[str] = set()  # clusters whose requests can have keys
        self._scopes: Resources = {NO_MODEL: _default_scope({})}
        self._destinations: Mapping[str, Destination] = {NO_MODEL: Destination()}
        self._known: Endpoints = {}
        self._endpoints: Resources = {}
        self._by_layer: dict[str, dict[str, Route]] = {name: {} for name in LAYERS}
        self._layers: Resources = {name: _layer(name, (), {}) for name in LAYERS}

    def build(self, table: RoutingTable, *, created_s: float = 0.0) -> Snapshot:
        touched = self._take_routes(table.routes)
        moved = self._take_endpoints(table.endpoints)
        touched |= {layer_of(self._models[cluster]) for cluster in moved}
        self._layers = {
            **self._layers,
            **{n: _layer(n, self._by_layer[n].values(), table.endpoints) for n in touched},
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
        before, self._served = self._routes, served
        self._routes = {route.model: route for route in served}
        # Most are the same object, and comparing two takes longer.
        kept = {
            model
            for model, route in self._routes.items()
            if (old := before.get(model)) is route or old == route
        }
        gone = [route for model, route in before.items() if model not in kept]
        fresh = [route for model, route in self._routes.items() if model not in kept]
        self._take_clusters(gone, fresh)
        self._take_names(gone, fresh)
        return self._take_layers(gone, fresh)

    def _take_layers(self, gone: Iterable[Route], fresh: Iterable[Route]) -> set[str]:
        """Which layer a model has is computed for those that changed only."""
        touched = set()
        for route in gone:
            touched.add(layer := layer_of(route.model))
            del self._by_layer[layer][route.model]
        for route in fresh:
            touched.add(layer := layer_of(route.model))
            self._by_layer[layer][route.model] = route
        return touched

    def _take_clusters(self, gone: Iterable[Route], fresh: Iterable[Route]) -> None:
        built = {
            name: Resource(name, protobuf.cluster(document))
            for name, document in clusters(fresh).items()
        }
        models = {name: route.model for route in fresh for name in route.clusters()}
        far = {name for route in fresh for name in route.clusters_on_other_hosts()}
        old = {name for route in gone for name in route.clusters()}
        removed = old - built.keys()
        self._clusters = {**_without(self._clusters, removed), **built}
        self._models = {**_without(self._models, removed), **models}
        keyed = {name for route in fresh for name in route.clusters_with_keys()}
        # Assignments say where health checks ask, which is the proxy on another host, and weights.
        moved = ((self._on_other_hosts & old) ^ far) | ((self._keyed & old) ^ keyed)
        self._endpoints = _without(self._endpoints, moved | removed)
        self._on_other_hosts = (self._on_other_hosts - old) | far
        self._keyed = (self._keyed - old) | keyed

    def _take_names(self, gone: Iterable[Route], fresh: Iterable[Route]) -> None:
        before, touched = self._names, self._take_owners(gone, fresh)
        removed = before.keys() - self._names.keys()
        built = {
            name: Resource(name, protobuf.scope(scope_of(name, route)), frozenset(_needs(route)))
            for name, route in touched.items()
        }
        destinations = {
            name: Destination(route.model, route.destinations) for name, route in touched.items()
        }
        spoken = any(
            name not in before or before[name].protocols != route.protocols
            for name, route in touched.items()
        )
        if removed or spoken:
            built[NO_MODEL] = _default_scope(self._names)
        self._scopes = {**_without(self._scopes, removed), **built}
        self._destinations = {**_without(self._destinations, removed), **destinations}

    def _take_owners(self, gone: Iterable[Route], fresh: Iterable[Route]) -> Mapping[str, Route]:
        """Who has which name; returns those whose owner changed or is another one. As long as names
        are what they were, nobody else's can change."""
        before = self._names
        if {route.model: route.names for route in gone} != {r.model: r.names for r in fresh}:
            self._names, changed = names_of(self._served), {route.model for route in fresh}
            return {
                name: route
                for name, route in self._names.items()
                if route.model in changed or before[name].model != route.model
            }
        own = {
            name: route
            for route in fresh
            for name in route.names
            if before[name].model == route.model
        }
        self._names = {**before, **own}
        return own

    def _take_endpoints(self, endpoints: Endpoints) -> set[str]:
        """Returns the clusters whose endpoints are not as before."""
        known = self._known
        # Most are the same object as before, in a table of thousands.
        other = {name for name, members in endpoints.items() if known.get(name) is not members}
        other |= known.keys() - endpoints.keys()
        moved = {name for name in other if known.get(name) != endpoints.get(name)}
        moved = (moved & self._clusters.keys()) | (self._clusters.keys() - self._endpoints.keys())
        if moved:
            self._endpoints = {
                **self._endpoints,
                **{name: self._assignment(name, endpoints.get(name, ())) for name in moved},
            }
        self._known = endpoints
        return moved

    def _assignment(self, cluster: str, endpoints: Iterable[Endpoint]) -> Resource:
        """Without keys all replicas are equal: Envoy picks two at random only then."""
        weighed = cluster in self._keyed
        equal = (each if weighed else replace(each, weight=EQUAL_WEIGHT) for each in endpoints)
        members, far = sorted(equal), cluster in self._on_other_hosts
        asked = {each: each.port if far else each.liveness_port for each in members}
        ports = {each: port for each, port in asked.items() if port}
        return Resource(cluster, protobuf.cluster_load_assignment(cluster, members, ports))


def _without(before: Mapping[str, T], names: Collection[str]) -> Mapping[str, T]:
    """The same object if none of them is in it: comparing two snapshots is quick then."""
    if not any(name in before for name in names):
        return before
    return {name: value for name, value in before.items() if name not in names}


def _layer(name: str, routes: Iterable[Route], endpoints: Endpoints) -> Resource:
    return Resource(name, protobuf.runtime(name, limits(routes, endpoints)))


def _default_scope(names: Mapping[str, Route]) -> Resource:
    return Resource(NO_MODEL, protobuf.scope(default_scope(names)))


def _needs(route: Route) -> Iterator[str]:
    for backend in route.backends:
        if backend.weight:
            yield from (backend.cluster(protocol) for protocol in route.protocols)
