"""A real Envoy fed by the control plane's gRPC server, which runs in the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from control_plane.building import build
from control_plane.hub import Hub
from control_plane.metrics import Metrics
from control_plane.resources.listener import GatewayAddress
from control_plane.routing import (
    LEAST_REQUEST,
    PROTOCOLS,
    Backend,
    Endpoint,
    Protocol,
    Route,
    Routing,
    RoutingTable,
)
from control_plane.server import DiscoveryService, grpc_server

from support import tools
from support.bootstrap import PEERS, bootstrap, gateway_secrets
from support.issued import Certificates
from support.processes import running
from support.waiting import ADDRESS, eventually, free_port

GATEWAY, PROMETHEUS = PEERS["gateway"], PEERS["prometheus"]


def route(
    model: str = "tiny",
    *backends: str,
    aliases: tuple[str, ...] = (),
    weights: Mapping[str, int] | None = None,
    server_name: str | None = None,
    protocols: tuple[Protocol, ...] = PROTOCOLS,
    max_concurrent_requests_per_replica: int = 64,
    stream_idle_timeout_s: int = 120,
    routing: Routing = LEAST_REQUEST,
) -> Route:
    weights = weights or {}
    return Route(
        schema_version=4,
        model=model,
        aliases=aliases,
        protocols=protocols,
        backends=tuple(
            Backend(service=service, weight=weights.get(service, 100), server_name=server_name)
            for service in backends or (f"model-{model.replace('/', '-')}-1",)
        ),
        max_concurrent_requests_per_replica=max_concurrent_requests_per_replica,
        stream_idle_timeout_s=stream_idle_timeout_s,
        max_stream_duration_s=600,
        routing=routing,
    )


class Gateway:
    """`apply` publishes a table and returns once Envoy has acknowledged all of it."""

    envoy: asyncio.subprocess.Process
    admin_socket: str

    def __init__(self, certificates: Certificates, public: str) -> None:
        self.certificates = certificates
        self.address = GatewayAddress(ADDRESS, free_port(), certificate=public)
        self.metrics_port = free_port()
        self.xds_port = free_port()
        self.hub = Hub()
        self.url = f"{'https' if public else 'http'}://{ADDRESS}:{self.address.port}"
        self.target = f"{ADDRESS}:{self.address.port}"
        self.metrics_url = f"https://{ADDRESS}:{self.metrics_port}"

    async def start_control_plane(self) -> None:
        """A new process, as far as Envoy can tell: new streams, no memory of versions."""
        self.metrics = Metrics()
        self.service = DiscoveryService(self.hub, self.metrics)
        self._server = grpc_server(self.service)
        self._server.add_insecure_port(f"{ADDRESS}:{self.xds_port}")
        await self._server.start()

    async def stop_control_plane(self) -> None:
        await self._server.stop(0)

    async def restart_control_plane(self) -> None:
        await self.stop_control_plane()
        await self.start_control_plane()

    async def apply(self, *routes: Route, **endpoints: tuple[Endpoint, ...]) -> None:
        """Endpoints by cluster name with `_` for `-`; clusters not named have none."""
        given = {name.replace("_", "-"): members for name, members in endpoints.items()}
        await self.apply_table(routes, given)

    async def apply_table(
        self, routes: tuple[Route, ...], endpoints: Mapping[str, tuple[Endpoint, ...]]
    ) -> None:
        clusters = {cluster for route in routes for cluster in route.clusters()}
        table = RoutingTable(routes, {name: endpoints.get(name, ()) for name in clusters})
        self.hub.publish(build(table, self.address))
        await eventually(self.settled, "Envoy acknowledges the snapshot")

    def settled(self) -> bool:
        """Every connected Envoy holds exactly the current snapshot."""
        snapshot = self.hub.current
        envoys = self.service.envoys
        if snapshot is None or not envoys:
            return False
        return all(
            envoy.stream.acknowledged(resource_type, name) == resource.version
            for envoy in envoys
            for resource_type, resources in snapshot.resources.items()
            for name, resource in resources.items()
        )

    @functools.cached_property
    def reader(self) -> ssl.SSLContext:
        """TLS of a client that may read its metrics."""
        return self.certificates.client(self.certificates.issue("prometheus", PROMETHEUS))

    async def admin(self, path: str) -> str:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(self.admin_socket)) as session,
            session.get(f"http://envoy{path}") as response,
        ):
            return await response.text()

    async def stat(self, name: str) -> int | None:
        """A counter or gauge; None while Envoy does not know it."""
        for line in (await self.admin(f"/stats?filter=^{name}$")).splitlines():
            return int(line.rsplit(": ", 1)[1])
        return None


@contextlib.asynccontextmanager
async def gateway(
    folder: Path,
    *,
    concurrency: int = 2,
    change: Callable[[dict[str, Any]], None] | None = None,
    certificates: Certificates | None = None,
    public: str = "",
) -> AsyncIterator[Gateway]:
    """Envoy starts with an empty table and is ready when this returns. `change` edits its
    bootstrap, by default so that all statistics can be read; `public` is the file in `folder` with
    the certificate for clients."""
    envoy = tools.find("envoy")
    result = Gateway(certificates or Certificates(folder / "certificates"), public)
    write_secrets(folder, result.certificates)
    await result.start_control_plane()
    config = folder / "envoy.json"
    document = bootstrap(ADDRESS, metrics_port=result.metrics_port, xds_port=result.xds_port)
    (change or all_statistics)(document)
    config.write_text(json.dumps(document), encoding="utf-8")
    command = [envoy, "-c", str(config), "--concurrency", str(concurrency)]
    command += ["--disable-hot-restart", "-l", "warning"]
    try:
        async with running(*command, log=folder / "envoy.log", folder=folder) as result.envoy:
            socket = document["admin"]["address"]["pipe"]["path"]
            # Short enough for the path of a socket, however long the folder's is.
            result.admin_socket = f"/proc/{result.envoy.pid}/cwd/{socket}"
            await result.apply()
            await eventually(_answers(result), "Envoy opens its listener")
            yield result
    finally:
        await result.stop_control_plane()


def all_statistics(document: dict[str, Any]) -> None:
    """In production Envoy keeps few of each cluster."""
    del document["stats_config"]["stats_matcher"]


def write_secrets(folder: Path, certificates: Certificates) -> None:
    """The files in which an Envoy in this folder finds its certificate."""
    (folder / "local").mkdir(exist_ok=True)
    own = certificates.issue("gateway", GATEWAY, ADDRESS)
    for path, content in gateway_secrets(own).items():
        (folder / path).write_text(content, encoding="utf-8")


def _answers(gateway: Gateway) -> Any:
    async def check() -> bool:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{gateway.url}/healthz", ssl=False) as response,
            ):
                return response.status == 200
        except aiohttp.ClientError:
            return False

    return check
