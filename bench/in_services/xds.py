"""Rows of bench/service_times.py: the control plane with real Envoys, and hosts that die."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
from control_plane.hub import Hub
from control_plane.metrics import Metrics
from control_plane.server import DiscoveryService, grpc_server
from row import row
from support.fake_replica import FakeReplica
from support.gateway import gateway, route
from support.load import WORKERS, load
from support.sites import Site, begun, site, streamed, whole
from support.waiting import ADDRESS, eventually
from test_server import REQUEST, frame, header

DEATH_S = 5.0
ANSWERED = {"200 blue", "200 green", "data: blue data: [DONE]", "data: green data: [DONE]"}


async def a_host_dies_under_load(site: Site) -> None:
    """Its requests fail, at most one for each client, and after 5 s it gets none."""
    async with load(site.gateway.url, "tiny") as outcomes:
        await eventually(lambda: {*outcomes} == {"blue", "green"}, "both answer")
        died_s = time.monotonic()
        site.blue.host.disconnect()
        await eventually(lambda: site.has(1), "the host is out")
        out_s = time.monotonic() - died_s
        await asyncio.sleep(DEATH_S - out_s)
        before = Counter(outcomes)
        await eventually(lambda: outcomes["green"] > before["green"] + 500, "one answers")
        after = Counter(outcomes) - before
        site.blue.host.connect()
        await eventually(lambda: outcomes["blue"] > before["blue"], "it is used again")
    failed = sum(number for name, number in outcomes.items() if name not in ("blue", "green"))
    lost = "" if {*after} == {"green"} else f"then {dict(after)}"
    lost += "" if failed <= WORKERS else f" {failed} failed of {WORKERS} clients"
    row("a host that dies under load is out", out_s, bar_s=DEATH_S, lost=lost)


async def requests_on_a_host_that_dies(site: Site) -> None:
    await site.use(site.blue, known=(site.green,))
    async with aiohttp.ClientSession() as client:
        asked = [asyncio.create_task(ask(client, site.url)) for ask in (streamed, whole)]
        already = begun(site)
        await eventually(lambda: begun(site) == already + 2, "both have begun")
        died_s = time.monotonic()
        site.blue.host.disconnect()
        await asyncio.gather(*asked)
        ended_s = time.monotonic() - died_s
    row("what waits for a host that dies ends", ended_s, bar_s=DEATH_S)
    site.blue.host.connect()


async def every_host_dies(site: Site) -> None:
    for side in (site.blue, site.green):
        side.host.disconnect()
    await eventually(lambda: site.has(0), "both are out")
    async with aiohttp.ClientSession() as client:
        began_s = time.monotonic()
        await whole(client, site.url)
        refused_s = time.monotonic() - began_s
    row("a request is refused when every host is out", refused_s, bar_s=1)


async def new_endpoints(site: Site) -> None:
    worst_s = 0.0
    await site.use(site.blue)
    async with load(site.gateway.url, "tiny") as outcomes:
        for _ in range(10):
            await site.use(site.blue, site.green)
            before, began_s = outcomes["green"], time.monotonic()
            await eventually(lambda n=before: outcomes["green"] > n, "it answers")  # type: ignore[misc]
            worst_s = max(worst_s, time.monotonic() - began_s)
            await site.use(site.blue)
    lost = "" if {*outcomes} == {"blue", "green"} else str(dict(outcomes))
    row("a new endpoint answers, worst of ten", worst_s, bar_s=0.5, lost=lost)


async def a_pause(site: Site, who: str, pause_s: float) -> None:
    """A pause shorter than a death loses nothing."""
    sides = (site.blue, site.green)
    paused = [each.proxy for each in sides] if who == "proxies" else [site.gateway.envoy]
    async with aiohttp.ClientSession() as client:
        already = begun(site)
        asks = [ask for ask in (streamed, whole) for _ in range(4)]
        asked = [asyncio.create_task(ask(client, site.url)) for ask in asks]
        await eventually(lambda: begun(site) == already + 8, "all have begun")
        began_s = time.monotonic()
        for process in paused:
            process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(pause_s)
        for process in paused:
            process.send_signal(signal.SIGCONT)
        took_s = time.monotonic() - began_s
        checks = await site.stat("health_check.success")
        await eventually(lambda: site.passed(checks + 4), "two more checks of each pass")
        used = await site.has(2)
        for each in sides:
            each.replica.release.set()
        answers = await asyncio.gather(*asked)
    lost = "" if used and {*answers} <= ANSWERED else f"{answers}"
    # What is measured is the pause; the bar is that it loses nothing.
    row(f"a pause of the {who} that loses nothing", took_s, bar_s=pause_s + 0.4, lost=lost)


async def a_changed_cluster(folder: Path) -> None:
    async with FakeReplica("blue") as blue, gateway(folder) as started:
        await started.apply(route("tiny"), model_tiny_1_openai=(blue.openai(),))
        began_s = time.monotonic()
        changed = route("tiny", max_concurrent_requests_per_replica=7)
        await started.apply(changed, model_tiny_1_openai=(blue.openai(),))
    row("a changed cluster is in use", time.monotonic() - began_s, bar_s=2)


async def an_envoy_dies() -> None:
    service = DiscoveryService(Hub(), Metrics())
    server = grpc_server(service)
    port = server.add_insecure_port(f"{ADDRESS}:0")
    await server.start()
    _, writer = await asyncio.open_connection(ADDRESS, port)  # it answers no ping
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    writer.write(frame(1, 4, 1, b"".join(header(*each) for each in REQUEST)))
    await eventually(lambda: len(service.envoys) == 1, "the stream is open")
    began_s = time.monotonic()
    await eventually(lambda: not service.envoys, "it is forgotten")
    row("an Envoy whose host died is forgotten", time.monotonic() - began_s, bar_s=6.5)
    writer.close()
    await server.stop(0)


async def on_a_site(measure: Callable[[Site], Awaitable[None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with site(Path(folder)) as found:
            await measure(found)


async def main() -> None:
    await on_a_site(a_host_dies_under_load)
    await on_a_site(requests_on_a_host_that_dies)
    await on_a_site(every_host_dies)
    await on_a_site(new_endpoints)
    await on_a_site(lambda site: a_pause(site, "proxies", 2))
    await on_a_site(lambda site: a_pause(site, "gateway", 6))
    with tempfile.TemporaryDirectory() as folder:
        await a_changed_cluster(Path(folder))
    await an_envoy_dies()


if __name__ == "__main__":
    asyncio.run(main())
