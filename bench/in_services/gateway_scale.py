"""Rows of bench/gateway/scale.py: many models, Envoys, changes and streams at one gateway."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import grpc
from control_plane import protobuf
from control_plane.building import SnapshotBuilder
from control_plane.resources.listener import GatewayAddress
from control_plane.routing import Endpoint, Route, Routing, RoutingTable
from control_plane.snapshot import ResourceType
from row import figure
from support.consul import consul
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway, route
from support.load import load
from support.platform import ROUTE, started
from support.waiting import ADDRESS, eventually, free_port

SWAPS, SWAPPED_REQUESTS = 50, 100_000
AWAY_S = 60
SLOW_STREAMS = 2000
ENVOYS, PUSHES = (10, 500), 20


async def many_models() -> None:
    """A request's whole way, to a model among few and among many: a direct response, so that no
    replica's time is in it."""
    p50_ms = {}
    for number in (10, 1000):
        with tempfile.TemporaryDirectory() as folder:
            async with gateway(Path(folder), concurrency=1) as started_gateway:
                await started_gateway.apply(*(route(f"m{n}") for n in range(number)))
                p50_ms[number] = await _asked_for(started_gateway, f"m{number - 1}")
    few, many = p50_ms[10], p50_ms[1000]
    figure(
        "a request that only Envoy answers, of 1,000 models : 10, p50",
        f"{many / few:.2f} ({many:.2f} ms : {few:.2f} ms)",
        bar="2",
        met=many <= 2 * few,
    )


async def _asked_for(of: Gateway, model: str) -> float:
    taken_ms = []
    async with aiohttp.ClientSession() as session:
        for _ in range(2000):
            began_s = time.perf_counter()
            async with session.get(f"{of.url}/v1/models/{model}") as response:
                assert response.status == 200
                await response.read()
            taken_ms.append(1000 * (time.perf_counter() - began_s))
    return statistics.median(taken_ms)


async def swaps() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            FakeReplica("blue") as blue,
            FakeReplica("green") as green,
            gateway(Path(folder)) as started_gateway,
        ):
            replicas = (blue, green)
            await started_gateway.apply(route("tiny", "model-0"), model_0_openai=(blue.openai(),))
            async with load(started_gateway.url, "tiny") as outcomes:
                for number in range(1, SWAPS + 1):
                    table = (route("tiny", f"model-{number}"),)
                    members = {f"model-{number}-openai": (replicas[number % 2].openai(),)}
                    await started_gateway.apply_table(table, members)
                    enough = SWAPPED_REQUESTS * number / SWAPS
                    await eventually(lambda n=enough: outcomes.total() >= n, "enough requests")  # type: ignore[misc]
    _lost(f"{SWAPS} swaps of clusters and routes under load", outcomes)


def _lost(what: str, outcomes: Counter[str], note: str = "") -> None:
    failed = {name: n for name, n in outcomes.items() if name not in ("blue", "green")}
    said = f"{sum(failed.values())} failed of {outcomes.total():,}{note}"
    said += f": {failed}" if failed else ""
    figure(what, said, bar="0", met=not failed)


async def outages() -> None:
    """Consul away, then the control plane, then both while they and Envoy start again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = folder / "view.json"
        async with FakeReplica("blue") as blue:
            async with consul(folder) as agent, started(folder, agent, last_known=kept) as site:
                await site.register(blue)
                await agent.put_route(ROUTE)
                await eventually(site.ready, "the model is ready")
                async with load(site.url, "tiny") as outcomes:
                    site.control_plane.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(AWAY_S)
                    site.control_plane.send_signal(signal.SIGCONT)
                _lost(f"the control plane stands still for {AWAY_S} s", outcomes)
                await asyncio.sleep(6)  # the view is kept every 5 s
            async with started(folder, agent, last_known=kept) as site:
                began_s = time.monotonic()
                await eventually(site.ready, "the model is ready")
                ready_s = time.monotonic() - began_s
                async with load(site.url, "tiny") as outcomes:
                    await asyncio.sleep(AWAY_S)
                note = f", ready {ready_s:.1f} s after the start"
                _lost(
                    f"Envoy and the control plane start without Consul, {AWAY_S} s", outcomes, note
                )


async def slow_streams() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with FakeReplica("blue") as blue, gateway(Path(folder)) as started_gateway:
            await started_gateway.apply(
                route("tiny", max_concurrent_requests_per_replica=SLOW_STREAMS),
                model_tiny_1_openai=(blue.openai(),),
            )
            connector = aiohttp.TCPConnector(limit=0)
            outcomes: Counter[str] = Counter()
            async with aiohttp.ClientSession(connector=connector) as session:

                async def stream() -> None:
                    body = {"model": "tiny", "stream": True}
                    url = f"{started_gateway.url}/v1/completions"
                    async with session.post(url, json=body) as response:
                        text = await response.text()
                        whole = text.endswith("[DONE]\n\n")
                        outcomes["blue" if whole else f"{response.status} {text}"] += 1

                async with asyncio.TaskGroup() as streams:
                    for number in range(SLOW_STREAMS):
                        streams.create_task(stream())
                        if number % 50 == 49:
                            await eventually(
                                lambda n=number: blue.in_flight == n + 1,  # type: ignore[misc]
                                "they have begun",
                            )
                    await asyncio.sleep(10)
                    blue.release.set()
    _lost(f"{SLOW_STREAMS:,} streams at once", outcomes)


async def fan_out() -> None:
    """Streams that acknowledge all they are told, and a server process that pushes endpoints."""
    cost_ms, peak = {}, 0.0
    for number in ENVOYS:
        port = free_port()
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _SERVER, str(port), *sys.path[-5:]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        cost_ms[number], peak = await _pushed(server, port, number)
        server.kill()
        await server.wait()
    few, many = (cost_ms[number] for number in ENVOYS)
    figure(
        f"processor time per stream and push, {ENVOYS[1]} : {ENVOYS[0]} Envoys, 1,000 endpoints",
        f"{many / few:.2f} ({many:.2f} ms : {few:.2f} ms)",
        bar="2",
        met=many <= 2 * few,
    )
    figure(f"memory with {ENVOYS[1]} Envoys", f"{peak:.0f} MiB", bar="150 MiB", met=peak <= 150)


# A control plane's server whose one model's endpoints change at every line that it reads.
_SERVER = """
import asyncio, resource, sys
sys.path += sys.argv[2:]
from control_plane.building import SnapshotBuilder
from control_plane.hub import Hub
from control_plane.metrics import Metrics
from control_plane.resources.listener import GatewayAddress
from control_plane.routing import Endpoint, RoutingTable
from control_plane.server import DiscoveryService, grpc_server
from support.gateway import route
from support.waiting import ADDRESS

async def main():
    builder, hub = SnapshotBuilder(GatewayAddress(ADDRESS, 1)), Hub()
    model = route("tiny")
    def publish(moved):
        ends = tuple(Endpoint(f"10.0.{n // 250}.{n % 250}", 1, n != moved) for n in range(1000))
        hub.publish(builder.build(RoutingTable((model,), {"model-tiny-1-openai": ends})))
    publish(-1)
    server = grpc_server(DiscoveryService(hub, Metrics()))
    server.add_insecure_port(f"{ADDRESS}:{sys.argv[1]}")
    await server.start()
    loop, moved = asyncio.get_running_loop(), 0
    print("ready", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(used.ru_utime + used.ru_stime, used.ru_maxrss, flush=True)
        publish(moved)
        moved += 1
asyncio.run(main())
"""


async def _pushed(server: Any, port: int, envoys: int) -> tuple[float, float]:
    """Milliseconds of processor time per stream and push, and MiB at the peak."""
    await server.stdout.readline()
    acknowledged = asyncio.Semaphore(0)
    streams = [asyncio.create_task(_envoy(port, n, acknowledged)) for n in range(envoys)]
    await _all(acknowledged, envoys)
    seen = []
    for _ in range(PUSHES + 1):
        server.stdin.write(b"\n")
        used_s, peak_kib = (await server.stdout.readline()).split()
        seen.append(float(used_s))
        await _all(acknowledged, envoys)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    return 1000 * (seen[-1] - seen[0]) / PUSHES / envoys, int(peak_kib) / 1024


async def _all(acknowledged: asyncio.Semaphore, envoys: int) -> None:
    for _ in range(envoys):
        await acknowledged.acquire()


async def _envoy(port: int, number: int, acknowledged: asyncio.Semaphore) -> None:
    """Asks for the endpoints of one cluster, as if nothing else were served."""
    # Channels with the same options share a connection; Envoys do not.
    own_connection = [("slipway.envoy", number)]
    channel = grpc.aio.insecure_channel(f"{ADDRESS}:{port}", options=own_connection)
    type_url = ResourceType.ENDPOINTS.value
    answers: asyncio.Queue[Any] = asyncio.Queue()

    async def requests() -> AsyncIterator[Any]:
        first = protobuf.DeltaRequest(type_url=type_url)
        first.node.id = f"envoy-{number}"
        first.resource_names_subscribe.append("model-tiny-1-openai")
        yield first
        while True:
            yield protobuf.DeltaRequest(type_url=type_url, response_nonce=await answers.get())
            acknowledged.release()

    stub = protobuf.DiscoveryStub(channel)
    async for response in stub.DeltaAggregatedResources(requests()):
        answers.put_nowait(response.nonce)


def building() -> None:
    """Of one health flip, of the control plane's own: from the table to what is sent."""
    cost_ms = {number: _flip_ms(number) for number in (10, 1000)}
    few, many = cost_ms[10], cost_ms[1000]
    figure(
        "building what one health flip sends, 1,000 models : 10",
        f"{many / few:.2f} ({many:.2f} ms : {few:.2f} ms)",
        bar="recorded",
        met=True,
    )


def _flip_ms(number: int) -> float:
    served: tuple[Route, ...] = tuple(route(f"m{n}", routing=Routing()) for n in range(number))
    up = (Endpoint("10.0.0.1", 1, True), Endpoint("10.0.0.2", 1, True))
    half = (up[0], Endpoint("10.0.0.2", 1, False))
    all_up = RoutingTable(served, {name: up for r in served for name in r.clusters()})
    one_down = RoutingTable(served, {**all_up.endpoints, "model-m1-1-openai": half})
    builder = SnapshotBuilder(GatewayAddress(ADDRESS, 1))
    builder.build(all_up)
    began_s = time.process_time()
    for _ in range(50):
        builder.build(one_down)
        builder.build(all_up)
    return 1000 * (time.process_time() - began_s) / 100


PARTS: dict[str, Callable[[], Awaitable[None]]] = {
    "models": many_models,
    "fanout": fan_out,
    "swaps": swaps,
    "streams": slow_streams,
    "outages": outages,
}


async def main() -> None:
    building()
    for name, part in PARTS.items():
        if os.environ.get("SCALE_ONLY", "") in name:
            await part()


if __name__ == "__main__":
    asyncio.run(main())
