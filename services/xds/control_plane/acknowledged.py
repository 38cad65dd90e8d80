"""GET /acknowledged: where each connected Envoy sends each model's requests.

A job may be removed once no Envoy sends requests to its service. The snapshot is the wanted state;
this document has the routes that each Envoy has acknowledged last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .resources.routes import ROUTE_CONFIG
from .server import Envoy
from .snapshot import ResourceType, Snapshot

SCHEMA_VERSION = 1
_KEPT_VERSIONS = 16  # an Envoy may keep an older one after a rejection

Destinations = Mapping[str, tuple[str, ...]]  # model -> the services that receive its requests


class RouteVersions:
    """The destinations of the last published versions of the route configuration."""

    def __init__(self) -> None:
        self._destinations: dict[str, Destinations] = {}  # oldest first

    def published(self, snapshot: Snapshot) -> None:
        version = snapshot.version(ResourceType.ROUTE, ROUTE_CONFIG)
        if version is None:
            return
        self._destinations.pop(version, None)
        self._destinations[version] = snapshot.destinations
        if len(self._destinations) > _KEPT_VERSIONS:
            del self._destinations[next(iter(self._destinations))]

    def acknowledged(self, envoys: Iterable[Envoy]) -> dict[str, Any]:
        """The document of schemas/acknowledged.schema.json. A reconnecting Envoy may be in it
        twice, once for each stream."""
        named = sorted((envoy for envoy in envoys if envoy.node), key=lambda envoy: envoy.node)
        return {
            "schema_version": SCHEMA_VERSION,
            "envoys": [{"node": envoy.node, "routes": self._routes(envoy)} for envoy in named],
        }

    def _routes(self, envoy: Envoy) -> dict[str, list[str]] | None:
        """An Envoy's routes; None before its first acknowledgement, while routes sent to it are not
        acknowledged (it may use them already), and for a version of an earlier control plane."""
        if envoy.stream.unanswered(ResourceType.ROUTE):
            return None
        version = envoy.stream.acknowledged(ResourceType.ROUTE, ROUTE_CONFIG)
        destinations = self._destinations.get(version) if version else None
        if destinations is None:
            return None
        return {model: list(services) for model, services in destinations.items()}
