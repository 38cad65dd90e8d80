"""The routing table from Consul: KV documents under slipway/routes/, and service health."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import aiohttp

from ..holding import Holding
from ..kv_document import BadDocumentError
from ..routing import Endpoint, Place, Route
from ..together import Together
from .blocking_query import BlockingQuery
from .catalog import Catalog
from .documents import ROUTES_PREFIX, endpoints_from_health, route_from_kv
from .reachability import Reachability

log = logging.getLogger(__name__)


class ConsulSource:
    """Keeps a Catalog up to date and reports changes. Runs until cancelled.

    The catalog is kept if Consul cannot be reached, or has lost its state and gives empty answers.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        catalog: Catalog,
        reachability: Reachability,
        on_change: Callable[[], None],
        on_departure: Callable[[], None],
    ) -> None:
        self._session = session
        self._catalog = catalog
        self._reachability = reachability
        self._on_change = on_change
        self._on_departure = on_departure
        self._watches: dict[str, asyncio.Task[None]] = {}
        self.routes_index = 0  # Consul's index of the newest routes
        self.known: Mapping[str, tuple[Endpoint, ...]] = {}  # by cluster, of an earlier view
        self._read: dict[str, tuple[int, Route]] = {}  # key -> index of its last change, and value

    async def run(self) -> None:
        tasks = Together()
        tasks.start(self._watch_routes(tasks), name=ROUTES_PREFIX)
        await tasks.ended()

    async def _watch_routes(self, tasks: Together) -> None:
        query = self._query(f"/v1/kv/{ROUTES_PREFIX}", {"recurse": "true"}, self.routes_index)
        async for answer in query.answers():
            if answer.lost:
                log.error("%s: consul lost its state; keeping the last one", ROUTES_PREFIX)
                continue
            self.routes_index = answer.index
            self._put_routes(answer.document or [])
            self._watch_clusters(tasks)
            self._on_change()

    def _put_routes(self, entries: list[dict[str, Any]]) -> None:
        read, problems = {}, {}
        for entry in entries:
            key, index = str(entry["Key"]), int(entry["ModifyIndex"])
            model = key.removeprefix(ROUTES_PREFIX)
            if not model:
                continue  # the folder itself, which Consul's UI creates
            known = self._read.get(key)
            try:
                # One changed document comes with all the others.
                read[key] = known if known and known[0] == index else (index, route_from_kv(entry))
            except BadDocumentError as error:
                problems[model] = str(error)
                log.error("route refused, keeping the model's last good one: %s", error)
        self._read = read
        self._catalog.put_routes([route for _, route in read.values()], problems)

    async def _watch(self, cluster: str, tasks: Together) -> None:
        query = self._query(_health_path(cluster), {})
        holding = Holding(self.known.get(cluster, ()))
        async for answer in query.answers():
            if answer.lost:
                log.error("%s: consul lost its state; keeping the last one", cluster)
                continue
            before = self._catalog.endpoints(cluster)
            found = endpoints_from_health(answer.document or [], before=before)
            endpoints = holding.judged(found, time.monotonic())
            self._catalog.put_endpoints(cluster, endpoints)
            _tell_of_held(cluster, before, endpoints)
            self._watch_clusters(tasks)
            if _places(before) - _places(endpoints):
                self._on_departure()
            else:
                self._on_change()

    def _watch_clusters(self, tasks: Together) -> None:
        """Watch exactly the catalog's clusters."""
        wanted = self._catalog.clusters()
        for cluster in sorted(wanted - self._watches.keys()):
            self._watches[cluster] = tasks.start(self._watch(cluster, tasks), name=cluster)
        unwanted = self._watches.keys() - wanted
        for cluster in unwanted:
            self._watches.pop(cluster).cancel()
            self._reachability.forget(_health_path(cluster))
        self._catalog.forget(unwanted)

    def _query(self, path: str, params: dict[str, str], seen_index: int = 0) -> BlockingQuery:
        return BlockingQuery(self._session, path, params, self._reachability, seen_index)


def _places(endpoints: Iterable[Endpoint]) -> set[Place]:
    return {endpoint.place for endpoint in endpoints}


def _tell_of_held(cluster: str, before: Iterable[Endpoint], now: Iterable[Endpoint]) -> None:
    held, were = (_places(e for e in endpoints if e.held) for endpoints in (now, before))
    if held - were:
        log.warning(
            "%s: consul takes %d of %d replicas for unhealthy; they stay in use as long as their"
            " liveness pages answer",
            cluster,
            len(held),
            len(_places(now)),
        )
    elif were and not held:
        log.info("%s: no replica is held any more", cluster)


def _health_path(cluster: str) -> str:
    return f"/v1/health/service/{cluster}"
