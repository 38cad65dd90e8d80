"""Connects Consul, the snapshot, gRPC and HTTP, and runs them until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from . import http_api
from .acknowledged import RouteVersions
from .building import SnapshotBuilder
from .coalescing import Burst, Coalescing
from .hub import Hub
from .last_known import LastKnown, View, read
from .metrics import Metrics
from .placement import placement
from .resources.listener import GatewayAddress
from .resources.routes import names_of
from .routing import RoutingTable
from .server import DiscoveryService, grpc_server
from .settings import HttpAddress, Settings, parse
from .sources.catalog import Catalog
from .sources.consul import ConsulSource
from .sources.reachability import Reachability
from .sources.weights import WeightsSource
from .status import status
from .tls import client_context, grpc_credentials, server_context
from .together import Together
from .weights.computing import Computing
from .weights.document import LOCK_KEY, by_replica
from .weights.lock import Lock
from .weights.prometheus import reported

_STOP_GRACE_S = 1.0
_PAUSE_S = 0.05  # between two snapshots, unless a replica leaves
_CONSUL_AWAY_S = 3.0  # without a complete view since the start: then the last known one is served

log = logging.getLogger(__name__)


class ControlPlane:
    """The program's parts. `run` returns when cancelled and raises OSError if a port is taken."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._gateway = GatewayAddress(
            settings.gateway.host,
            settings.gateway.port,
            shared=settings.shared_address,
            certificate=settings.public_certificate,
        )
        self._builder = SnapshotBuilder(self._gateway)
        self._publishing = Coalescing(self._publish, pause_s=_PAUSE_S, clock=time.monotonic)
        self._published: RoutingTable | None = None
        self._last_known: LastKnown | None = None
        self._metrics = Metrics()
        self._hub = Hub()
        self._route_versions = RouteVersions()
        self._hub.subscribe(self._route_versions.published)
        self._catalog = Catalog()
        self._reachability = Reachability(time.monotonic)
        self._service = DiscoveryService(self._hub, self._metrics)
        self._health = health.aio.HealthServicer()
        self._metrics.consul_stale_seconds.set_function(self._reachability.stale_s)
        self._metrics.refused_routes.set_function(lambda: len(self._catalog.problems))
        self._metrics.count_held(lambda: _held(self._published))

    async def run(self) -> None:
        await self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        consul_session = self._session(self._settings.consul, token=self._settings.consul_token)
        async with self._http(), self._grpc(), consul_session as consul:
            tasks = Together()
            source = self._source(consul)
            if self._settings.last_known:
                self._keep(self._settings.last_known, source, tasks)
            tasks.start(source.run(), name="consul")
            if self._settings.prometheus:
                self._follow_weights(self._settings.prometheus, consul, tasks)
            else:
                self._catalog.put_weights({})
            tasks.start(self._publishing.run(), name="publishing")
            await tasks.ended()

    def _keep(self, path: Path, source: ConsulSource, tasks: Together) -> None:
        def latest() -> View | None:
            table = self._published
            return View(table, source.routes_index) if table else None

        self._last_known = LastKnown(path, latest)
        tasks.start(self._last_known.run(), name="last known")
        view = read(path)
        if view is not None:
            source.routes_index, source.known = view.index, view.table.endpoints
            tasks.start(self._serve_without_consul(view.table), name="without consul")

    async def _serve_without_consul(self, last_known: RoutingTable) -> None:
        await asyncio.sleep(_CONSUL_AWAY_S)
        if self._hub.current is None:
            log.warning("consul has not answered for %s s: serving its last view", _CONSUL_AWAY_S)
            self._catalog.restore(last_known)
            self._publishing.changed()

    def _source(self, consul: aiohttp.ClientSession) -> ConsulSource:
        return ConsulSource(
            consul,
            self._catalog,
            self._reachability,
            on_change=self._publishing.changed,
            on_departure=self._publishing.changed_urgently,
        )

    def _follow_weights(
        self, prometheus: HttpAddress, consul: aiohttp.ClientSession, tasks: Together
    ) -> None:
        weights = WeightsSource(consul, self._reachability, self._take_weights)
        self._metrics.refused_weights.set_function(lambda: len(weights.problems))
        tasks.start(weights.run(), name="weights")
        computing = self._computing(prometheus, consul, weights)
        tasks.start(computing, name="computing weights")

    def _take_weights(self, weights: Mapping[str, Mapping[str, int]]) -> None:
        self._catalog.put_weights(by_replica(weights.values()))
        self._publishing.changed()

    async def _computing(
        self, prometheus: HttpAddress, consul: aiohttp.ClientSession, weights: WeightsSource
    ) -> None:
        async with self._session(prometheus) as session:
            await Computing(
                Lock(consul, LOCK_KEY, holder=f"slipway xds at {self._settings.listen}"),
                reported=partial(reported, session),
                table=lambda: self._published,
                served=lambda: weights.served,
            ).run()

    @contextlib.asynccontextmanager
    async def _session(
        self, address: HttpAddress, *, token: str | None = None
    ) -> AsyncIterator[aiohttp.ClientSession]:
        certificate = self._settings.certificate
        async with aiohttp.ClientSession(
            str(address),
            headers={"X-Consul-Token": token} if token else {},
            connector=aiohttp.TCPConnector(
                limit=0,  # one blocked connection per query
                ssl=client_context(certificate) if certificate else True,
            ),
        ) as session:
            yield session

    @contextlib.asynccontextmanager
    async def _grpc(self) -> AsyncIterator[None]:
        server = grpc_server(self._service)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        listen, certificate = str(self._settings.listen), self._settings.certificate
        if certificate:
            server.add_secure_port(listen, grpc_credentials(certificate))
        else:
            server.add_insecure_port(listen)
        await server.start()
        log.info("delta ADS on %s", listen)
        try:
            yield
        finally:
            await server.stop(_STOP_GRACE_S)

    @contextlib.asynccontextmanager
    async def _http(self) -> AsyncIterator[None]:
        app = http_api.application(
            registry=self._metrics.registry,
            is_synced=lambda: self._hub.current is not None,
            status=self._status,
            acknowledged=lambda: self._route_versions.acknowledged(self._service.envoys),
            placement=self._placement,
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        http, certificate = self._settings.http, self._settings.certificate
        context = server_context(certificate) if certificate else None
        await web.TCPSite(runner, http.host, http.port, ssl_context=context).start()
        log.info("status on %s", http)
        try:
            yield
        finally:
            await runner.cleanup()

    def _publish(self, burst: Burst) -> None:
        self._metrics.coalesced.inc(burst.changes - 1)
        table = self._catalog.table()
        if table is None:
            return
        first = self._hub.current is None
        snapshot = self._builder.build(table, created_s=burst.began_s)
        self._published = table
        if self._last_known:
            self._last_known.changed()
        if self._hub.publish(snapshot):
            for resource_type, resources in snapshot.resources.items():
                self._metrics.resources.labels(resource_type.name.lower()).set(len(resources))
        if first:
            serving = self._health.set("", health_pb2.HealthCheckResponse.SERVING)
            self._becoming_healthy = asyncio.ensure_future(serving)

    def _placement(self, name: str, key: str | None) -> dict[str, Any] | None:
        table = self._published
        route = names_of(table.routes).get(name) if table else None
        return placement(route, table, key) if table and route else None

    def _status(self) -> dict[str, Any]:
        return status(
            self._published,
            self._hub.current,
            self._service.envoys,
            problems=self._catalog.problems,
            consul_stale_s=self._reachability.stale_s(),
            now_s=time.monotonic(),
        )


def _held(table: RoutingTable | None) -> dict[str, int]:
    """How many replicas of each model are held. A replica is in a cluster for each protocol."""
    if table is None:
        return {}
    found = {
        route.model: len(
            {
                (each.address, each.liveness_port)
                for cluster in route.clusters()
                for each in table.endpoints.get(cluster, ())
                if each.held
            }
        )
        for route in table.routes
    }
    return {model: count for model, count in found.items() if count}


def main() -> int:
    """Returns 0 after SIGTERM or SIGINT, 1 if an address cannot be bound, 2 for invalid
    settings."""
    settings = parse(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _allow_open_files()
    try:
        asyncio.run(_run_until_signalled(ControlPlane(settings)))
    except (OSError, RuntimeError) as error:
        log.error("%s", error)
        return 1
    return 0


def _allow_open_files() -> None:
    """As many as the system allows: each watched service has a connection, and Nomad starts tasks
    with the usual limit of 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # a hard limit that the kernel does not allow
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run_until_signalled(control_plane: ControlPlane) -> None:
    running = asyncio.ensure_future(control_plane.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
