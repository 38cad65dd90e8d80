"""GET /acknowledged: where each connected Envoy sends each model's requests.

A job may be removed once no Envoy sends requests to its service. The snapshot is the wanted state;
this document has the routes that each Envoy has acknowledged last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .hub import Published
from .server import Envoy
from .snapshot import Destination, ResourceType

SCHEMA_VERSION = 1
_KEPT_VERSIONS = 16  # an Envoy may keep an older one after a rejection


class RouteVersions:
    """The destinations of the last published versions of each scope of routes."""

    def __init__(self) -> None:
        self._destinations: dict[str, dict[str, Destination]] = {}  # by name, version; oldest first

    def published(self, published: Published) -> None:
        snapshot = published.snapshot
        for name in published.names.get(ResourceType.ROUTE, ()):
            version = snapshot.version(ResourceType.ROUTE, name)
            if version is None:
                continue
            versions = self._destinations.setdefault(name, {})
            versions.pop(version, None)
            versions[version] = snapshot.destinations[name]
            if len(versions) > _KEPT_VERSIONS:
                del versions[next(iter(versions))]

    def acknowledged(self, envoys: Iterable[Envoy]) -> dict[str, Any]:
        """The document of schemas/acknowledged.schema.json. A reconnecting Envoy may be in it
        twice, once for each stream."""
        named = sorted((envoy for envoy in envoys if envoy.node), key=lambda envoy: envoy.node)
        return {
            "schema_version": SCHEMA_VERSION,
            "envoys": [{"node": envoy.node, "routes": self._routes(envoy)} for envoy in named],
        }

    def _routes(self, envoy: Envoy) -> dict[str, list[str]] | None:
        """An Envoy's routes, over all names of each model; None before its first acknowledgement,
        while routes sent to it are not acknowledged (it may use them already), and for a version of
        an earlier control plane."""
        held = envoy.stream.confirmed(ResourceType.ROUTE)
        if not held or envoy.stream.unanswered(ResourceType.ROUTE):
            return None
        services: dict[str, set[str]] = {}
        for name, version in held.items():
            destination = self._destinations.get(name, {}).get(version)
            if destination is None:
                return None
            if destination.model:
                services.setdefault(destination.model, set()).update(destination.services)
        return {model: sorted(found) for model, found in sorted(services.items())}
