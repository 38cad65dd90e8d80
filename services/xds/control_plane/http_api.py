"""The HTTP API: /metrics, /healthz, /status, /acknowledged, /placement?model=NAME&key=KEY."""

from __future__ import annotations

import asyncio
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
    placement: Callable[[str, str | None], dict[str, Any] | None],
) -> web.Application:
    """`is_synced` decides /healthz: 200 once there is a snapshot to serve, else 503. `placement`
    gets a model's name or alias, and a key if there is one; None if there is no such model."""

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

    async def show_placement(request: web.Request) -> web.Response:
        model, key = request.query.get("model", ""), request.query.get("key")
        document = await asyncio.to_thread(placement, model, key)
        if document is None:
            return web.Response(status=404, text=f"no model has the name {model!r}\n")
        return web.json_response(document)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", health)
    app.router.add_get("/status", show_status)
    app.router.add_get("/acknowledged", show_acknowledged)
    app.router.add_get("/placement", show_placement)
    return app
