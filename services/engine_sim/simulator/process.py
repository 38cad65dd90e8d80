"""The process: opens the listeners, waits for SIGTERM, drains, ends."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
from aiohttp import web
from program.liveness.progress import VARIABLE, Progress

from simulator.core.step_time import UnknownProfileError, load_profile
from simulator.document import BadInputError, Listeners, Replica, read_listeners, read_replica
from simulator.engine import Engine
from simulator.inflight import InFlight
from simulator.openai import app as openai_app
from simulator.triton import grpc_service, http_app
from simulator.triton.metrics import TritonMetrics

_LOG = logging.getLogger("engine_sim")
_PROFILES = Path(__file__).parent.parent / "profiles.json"
_PORT_POLL_S = 0.5
_BEAT_S = 0.25
_CLOSE_S = 1.0  # after the drain, to send the last bytes and close idle connections


class ListenError(Exception):
    """The process cannot listen on an address or port."""


def main() -> int:
    """Exit codes: 0 drained, 1 cannot listen on a port or the engine failed (also at its start), 2
    wrong input."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("grpc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description="A simulated inference engine.")
    parser.add_argument("--document", type=Path, required=True, help="replica.json")
    arguments = parser.parse_args()
    try:
        replica = read_replica(arguments.document)
        listeners = read_listeners(os.environ)
        engine = _make_engine(replica)
    except BadInputError as error:
        _LOG.error("%s", error)
        return 2
    if engine.faults.no_start:
        _LOG.error("%s does not start, because of the fault no_start", replica.model)
        return 1
    gc.freeze()  # everything loaded by now is permanent: the garbage collector can skip it
    try:
        return asyncio.run(_run(replica, listeners, engine))
    except ListenError as error:
        _LOG.error("%s", error)
        return 1


def _make_engine(replica: Replica) -> Engine:
    settings = replica.engine
    try:
        profile = load_profile(
            _PROFILES, profile=settings.profile, architecture=settings.architecture
        )
    except UnknownProfileError as error:
        raise BadInputError(f"engine.profile: {error}") from error
    watched = os.environ.get(VARIABLE)
    return Engine(replica, profile, Progress.open(watched) if watched else Progress.create())


async def _run(replica: Replica, listeners: Listeners, engine: Engine) -> int:
    beating = asyncio.create_task(_beat(engine.progress))
    try:
        return await _serve(replica, listeners, engine)
    finally:
        beating.cancel()


async def _beat(progress: Progress) -> None:
    """Tells the watcher that this loop turns, also while the engine has nothing to do."""
    while True:
        progress.beat(0)
        await asyncio.sleep(_BEAT_S)


async def _serve(replica: Replica, listeners: Listeners, engine: Engine) -> int:
    in_flight = InFlight()
    terminated = _terminated()
    if not await _ports_are_free(listeners, terminated):
        return 0
    async with _open(listeners, engine, in_flight):
        _LOG.info("%s simulates %s on %s", replica.model, engine.profile.name, listeners.address)
        running = asyncio.create_task(engine.run())
        waiting = asyncio.create_task(terminated.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            _LOG.error("the engine failed", exc_info=running.exception())
            return 1
        _LOG.info("draining %d requests", in_flight.count)
        if not await in_flight.wait_idle(replica.drain_timeout_s):
            _LOG.warning("%d requests cut off after %s s", in_flight.count, replica.drain_timeout_s)
        running.cancel()
    return 0


async def _ports_are_free(listeners: Listeners, terminated: asyncio.Event) -> bool:
    """Waits for a replica that still drains on these ports, which Nomad reassigns too early
    (hashicorp/nomad issue 24904). False if this one is asked to end meanwhile."""
    said = None
    while taken := [port for port in listeners.ports if not _can_listen(listeners.address, port)]:
        if taken != said:
            _LOG.info("waiting for ports %s of %s", taken, listeners.address)
            said = taken
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(terminated.wait(), _PORT_POLL_S)
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


def _terminated() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second one ends the process at once."""
    loop = asyncio.get_running_loop()
    terminated = asyncio.Event()

    def first(number: signal.Signals) -> None:
        terminated.set()
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)  # Python's own handler for SIGINT only raises

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first, number)
    return terminated


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
