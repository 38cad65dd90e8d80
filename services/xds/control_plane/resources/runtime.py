"""The runtime layers: request limits of each cluster, from its number of replicas in use.

A limit in the cluster itself would need a new, newly warmed cluster for every added or removed
replica. A runtime value changes by itself. The limits are spread over a fixed number of layers, so
that a change sends one of them and not all limits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from ..routing import Endpoint, Route

# Envoy's bootstrap lists them: components/gateway/envoy_bootstrap.py.
LAYERS = tuple(f"slipway-{number:02}" for number in range(32))


def layer_of(model: str) -> str:
    """The layer with the limits of a model's clusters."""
    return LAYERS[zlib.crc32(model.encode()) % len(LAYERS)]


def limits(
    routes: Iterable[Route], endpoints: Mapping[str, tuple[Endpoint, ...]]
) -> dict[str, int]:
    """The values of a layer: limit per replica x replicas in use (at least one), per cluster."""
    values: dict[str, int] = {}
    for route in routes:
        for cluster in route.clusters():
            in_use = sum(endpoint.in_use for endpoint in endpoints.get(cluster, ()))
            limit = route.max_concurrent_requests_per_replica * max(1, in_use)
            for resource in ("max_requests", "max_pending_requests"):
                values[f"circuit_breakers.{cluster}.default.{resource}"] = limit
    return values
