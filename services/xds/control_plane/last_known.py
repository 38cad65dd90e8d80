"""The last view of Consul on disk: a control plane that starts while Consul is away serves it.

The file outlives the task, its allocation and the version of this program. It has what Consul knows
(routes, addresses), no secret. One that cannot be read is as good as none.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .routing import Endpoint, Route, RoutingTable

SCHEMA_VERSION = 1
WRITTEN_EVERY_S = 5.0  # at most: endpoints of many models may change every second

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A table, and Consul's index of its routes: a lower one later means that Consul has lost its
    state."""

    table: RoutingTable
    index: int


class LastKnown:
    """Keeps the newest view in a file. `changed` may be called as often as it changes."""

    def __init__(self, path: Path, latest: Callable[[], View | None]) -> None:
        self._path = path
        self._latest = latest
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled. A failure is logged: what is served does not depend on the file."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            view = self._latest()
            if view is not None:
                try:
                    await asyncio.to_thread(write, self._path, view)
                except OSError as error:
                    log.error("%s: the last view of Consul is not kept: %s", self._path, error)
            await asyncio.sleep(WRITTEN_EVERY_S)


def write(path: Path, view: View) -> None:
    """Replaces the file whole, readable by its owner only. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(_document(view), file, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def read(path: Path) -> View | None:
    """None, with a line in the log, if there is no file that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"version {document['schema_version']}")
        routes = tuple(Route.model_validate_json(json.dumps(each)) for each in document["routes"])
        endpoints = {
            cluster: tuple(Endpoint(**each) for each in members)
            for cluster, members in document["endpoints"].items()
        }
        return View(RoutingTable(routes, endpoints), int(document["index"]))
    except FileNotFoundError:
        log.info("%s: no view of Consul is kept yet", path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.error("%s: the last view of Consul cannot be read: %s", path, error)
    return None


def _document(view: View) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "index": view.index,
        "routes": [
            json.loads(route.model_dump_json(exclude_unset=True)) for route in view.table.routes
        ],
        "endpoints": {
            cluster: [_kept(endpoint) for endpoint in members]
            for cluster, members in view.table.endpoints.items()
        },
    }


def _kept(endpoint: Endpoint) -> dict[str, Any]:
    """What the versions before know, too: they refuse other keys."""
    return {
        "address": endpoint.address,
        "port": endpoint.port,
        "healthy": endpoint.in_use,
        "replica": endpoint.replica,
        "liveness_port": endpoint.liveness_port,
        "weight": endpoint.weight,
    }
