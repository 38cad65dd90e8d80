"""The runtime layer: request limits of each cluster, from its number of healthy replicas.

A limit in the cluster itself would need a new, newly warmed cluster for every added or removed
replica. A runtime value changes by itself.
"""

from __future__ import annotations

from ..routing import RoutingTable

LAYER = "slipway"


def runtime_layer(table: RoutingTable) -> dict[str, object]:
    """The Runtime resource: limit per replica x healthy replicas (at least one), per cluster."""
    layer: dict[str, int] = {}
    for route in table.routes:
        for cluster in route.clusters():
            healthy = sum(endpoint.healthy for endpoint in table.endpoints.get(cluster, ()))
            limit = route.max_concurrent_requests_per_replica * max(1, healthy)
            for resource in ("max_requests", "max_pending_requests"):
                layer[f"circuit_breakers.{cluster}.default.{resource}"] = limit
    return {"name": LAYER, "layer": layer}
