"""The listeners of a replica: they open, serve until SIGTERM, drain and close."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator

import grpc
from aiohttp import web

from simulator.document import Listeners
from simulator.engine import Engine
from simulator.group.connection import GroupError
from simulator.inflight import InFlight
from simulator.openai import app as openai_app
from simulator.signals import terminated
from simulator.triton import grpc_service, http_app
from simulator.triton.metrics import TritonMetrics

_LOG = logging.getLogger("engine_sim")
_PORT_POLL_S = 0.5
_CLOSE_S = 1.0  # after the drain, to send the last bytes and close idle connections


class ListenError(Exception):
    """The process cannot listen on an address or port."""


async def serve(listeners: Listeners, engine: Engine) -> int:
    """Exit codes: 0 drained, 1 cannot listen, has no group, or the engine failed."""
    ending = terminated()
    try:
        if not await _ports_are_free(listeners, ending):
            return 0
        return await _serve(listeners, engine, ending)
    except (ListenError, GroupError) as error:
        _LOG.error("%s", error)
        return 1


async def _serve(listeners: Listeners, engine: Engine, ending: asyncio.Event) -> int:
    in_flight, replica = InFlight(), engine.replica
    async with _open(listeners, engine, in_flight):
        _LOG.info("%s simulates %s on %s", replica.model, engine.profile.name, listeners.address)
        running = asyncio.create_task(engine.run())
        waiting = asyncio.create_task(ending.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            failure = running.exception()
            if isinstance(failure, GroupError):
                raise failure
            _LOG.error("the engine failed", exc_info=failure)
            return 1
        _LOG.info("draining %d requests", in_flight.count)
        if not await in_flight.wait_idle(replica.drain_timeout_s):
            _LOG.warning("%d requests cut off after %s s", in_flight.count, replica.drain_timeout_s)
        running.cancel()
        engine.pipeline.close()
    return 0


async def _ports_are_free(listeners: Listeners, ending: asyncio.Event) -> bool:
    """Waits for a replica that still drains on these ports, which Nomad reassigns too early
    (hashicorp/nomad issue 24904). False if this one is asked to end meanwhile."""
    said = None
    while taken := [port for port in listeners.ports if not _can_listen(listeners.address, port)]:
        if taken != said:
            _LOG.info("waiting for ports %s of %s", taken, listeners.address)
            said = taken
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ending.wait(), _PORT_POLL_S)
            return False
    return True


def _can_listen(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ListenError(f"{address}:{port}: {error.strerror}") from error
            return False
    return True


@contextlib.asynccontextmanager
async def _open(listeners: Listeners, engine: Engine, in_flight: InFlight) -> AsyncIterator[None]:
    metrics = TritonMetrics(engine.replica.model, lambda: len(engine.scheduler.waiting))
    apps = (
        (openai_app.make_app(engine, in_flight), listeners.openai),
        (http_app.make_app(engine, metrics, in_flight), listeners.http),
        (http_app.make_metrics_app(metrics), listeners.metrics),
    )
    server = grpc_service.make_server(engine, metrics, in_flight)
    async with contextlib.AsyncExitStack() as stack:
        for app, port in apps:
            await stack.enter_async_context(_http(app, listeners.address, port))
        await stack.enter_async_context(_grpc(server, listeners.address, listeners.grpc))
        yield


@contextlib.asynccontextmanager
async def _http(app: web.Application, address: str, port: int) -> AsyncIterator[None]:
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=_CLOSE_S
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        raise ListenError(f"{address}:{port}: {error.strerror}") from error
    try:
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _grpc(server: grpc.aio.Server, address: str, port: int) -> AsyncIterator[None]:
    try:
        server.add_insecure_port(f"{address}:{port}")
    except RuntimeError as error:
        raise ListenError(f"{address}:{port}: {error}") from error
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=_CLOSE_S)
