"""The HTTP API: /metrics, /healthz, /status, /acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


def application(
    *,
    registry: CollectorRegistry,
    is_synced: Callable[[], bool],
    status: Callable[[], dict[str, Any]],
    acknowledged: Callable[[], dict[str, Any]],
) -> web.Application:
    """`is_synced` decides /healthz: 200 once there is a snapshot to serve, else 503."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST}
        )

    async def health(_: web.Request) -> web.Response:
        if is_synced():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="waiting for Consul's first complete answer\n")

    async def show_status(_: web.Request) -> web.Response:
        return web.json_response(status())

    async def show_acknowledged(_: web.Request) -> web.Response:
        return web.json_response(acknowledged())

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", health)
    app.router.add_get("/status", show_status)
    app.router.add_get("/acknowledged", show_acknowledged)
    return app
