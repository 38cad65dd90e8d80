"""The known routes and endpoints, and the table that can be served from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..routing import EQUAL_WEIGHT, Endpoint, Route, RoutingTable, weighted


class Catalog:
    """Collects what the source learns.

    A route is served once the endpoints of all its clusters are known; until then the model keeps
    its previous route, so that traffic never moves to a backend that has not been checked.
    """

    def __init__(self) -> None:
        self._wanted: dict[str, Route] | None = None
        self._served: dict[str, Route] = {}
        self._endpoints: dict[str, tuple[Endpoint, ...]] = {}
        self._weights: dict[str, int] | None = None  # by replica; None until they are known
        # What follows from wanted and served routes: endpoints change far more often than these.
        self._watched: frozenset[str] = frozenset()
        self._routes: tuple[Route, ...] = ()
        self._clusters: tuple[str, ...] = ()
        self.problems: dict[str, str] = {}

    def restore(self, table: RoutingTable) -> None:
        """Serves a table of an earlier time until Consul's routes are known."""
        self._endpoints = {**table.endpoints, **self._endpoints}
        if self._weights is None:
            self._weights = {
                endpoint.replica: endpoint.weight
                for members in table.endpoints.values()
                if any(endpoint.weight != EQUAL_WEIGHT for endpoint in members)
                for endpoint in members
            }
        self._weigh(self._weights)
        self._served = {route.model: route for route in table.routes}
        self._clusters = _clusters_of(table.routes)
        self._settle()

    def put_routes(self, routes: Iterable[Route], problems: Mapping[str, str]) -> None:
        """Sets all routes. A model in `problems` keeps its last route."""
        previous = self._wanted or {}
        kept = {model: previous[model] for model in problems if model in previous}
        self._wanted = {**kept, **{route.model: route for route in routes}}
        self.problems = dict(problems)
        self._settle()

    def put_endpoints(self, cluster: str, endpoints: tuple[Endpoint, ...]) -> None:
        if not endpoints and cluster in self._leaving():
            # The previous job was deregistered before its successor's endpoints were known. Its
            # replicas still answer while they drain, and the model has no others until then.
            return
        fresh = cluster not in self._endpoints
        weights = self._weights
        self._endpoints[cluster] = weighted(endpoints, weights) if weights else endpoints
        if fresh:
            self._settle()

    def put_weights(self, weights: Mapping[str, int]) -> None:
        """Sets the weights of all replicas, by name. What they do not change stays the same."""
        first = self._weights is None
        self._weights = dict(weights)
        self._weigh(self._weights)
        if first:
            self._settle()

    def _weigh(self, weights: Mapping[str, int]) -> None:
        for cluster, members in self._endpoints.items():
            fresh = weighted(members, weights)
            if fresh != members:
                self._endpoints[cluster] = fresh

    def endpoints(self, cluster: str) -> tuple[Endpoint, ...]:
        """A cluster's last known endpoints; empty if there are none yet."""
        return self._endpoints.get(cluster, ())

    def clusters(self) -> frozenset[str]:
        """Clusters whose endpoints must be watched: those of wanted and of served routes."""
        return self._watched

    def forget(self, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            self._endpoints.pop(cluster, None)

    def table(self) -> RoutingTable | None:
        """The table to serve; None until the first view is complete, so that no partial table is
        served."""
        if not self._served and not self._is_complete():
            return None
        return RoutingTable(self._routes, {name: self._endpoints[name] for name in self._clusters})

    def _is_complete(self) -> bool:
        """With weights: else keys would move as soon as those are known."""
        if self._wanted is None or self._weights is None:
            return False
        return all(map(self._known, self._wanted.values()))

    def _leaving(self) -> frozenset[str]:
        """Clusters that are served only until their successors' endpoints are known."""
        wanted = {c for route in (self._wanted or {}).values() for c in route.clusters()}
        return frozenset(set(self._clusters) - wanted)

    def _settle(self) -> None:
        """A change of one route passes over those of all, but looks at its own clusters only."""
        before, wanted = self._served, self._served if self._wanted is None else self._wanted
        if before or self._is_complete():
            best = {
                model: route if route is before.get(model) or self._known(route) else None
                for model, route in wanted.items()
            }
            self._served = {
                model: served
                for model, route in best.items()
                if (served := route or before.get(model)) is not None
            }
        self._routes = tuple(self._served[model] for model in sorted(self._served))
        if not _have_the_same_clusters(before, self._served):
            self._clusters = _clusters_of(self._routes)
        waiting = [each for model, each in wanted.items() if self._served.get(model) is not each]
        self._watched = frozenset(self._clusters).union(*(each.clusters() for each in waiting))

    def _known(self, route: Route) -> bool:
        return all(cluster in self._endpoints for cluster in route.clusters())


def _clusters_of(routes: Iterable[Route]) -> tuple[str, ...]:
    return tuple(sorted({cluster for route in routes for cluster in route.clusters()}))


def _have_the_same_clusters(before: Mapping[str, Route], after: Mapping[str, Route]) -> bool:
    return before.keys() == after.keys() and all(
        route is before[model] or route.clusters() == before[model].clusters()
        for model, route in after.items()
    )
