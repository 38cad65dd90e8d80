# mypy: disable-error-code="import-untyped"
"""Replicas on two hosts. One loses its network: its packets vanish, and nothing says that it
died."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import tritonclient.grpc.aio as triton
from control_plane.routing import Endpoint
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway
from support.issued import Certificates
from support.load import WORKERS, load
from support.proxies import FAR, NAME, proxy
from support.remote_hosts import RemoteHost, remote_hosts
from support.waiting import eventually, free_port

pytestmark = pytest.mark.binaries

OPENAI, TRITON = "model-tiny-1-openai", "model-tiny-1-grpc"
OUT_WITHIN_S = 5.0
LOST = ["cut off", "503 replica_lost", "StatusCode.INTERNAL"]
OF_BLUE = ["data: blue data: [DONE]", "200 blue"]
WHOLE = ["data: green data: [DONE]", "200 green", "green"]


@dataclass(frozen=True)
class Hosted:
    """A replica on a host of its own, behind its proxy."""

    host: RemoteHost
    replica: FakeReplica
    proxy: asyncio.subprocess.Process

    def endpoint(self, cluster: str, *, healthy: bool = True) -> Endpoint:
        port = self.replica.http_port if cluster == OPENAI else self.replica.grpc_port
        return Endpoint(self.host.address, port, healthy)


@dataclass(frozen=True)
class Site:
    """A gateway and two replicas that it may use."""

    gateway: Gateway
    blue: Hosted
    green: Hosted

    @property
    def url(self) -> str:
        return f"{self.gateway.url}/v1/completions"

    async def use(self, *used: Hosted, known: tuple[Hosted, ...] = ()) -> None:
        """Those that are known and not used are unhealthy, as Consul would say."""
        members = {
            cluster: tuple(each.endpoint(cluster, healthy=each in used) for each in {*used, *known})
            for cluster in (OPENAI, TRITON)
        }
        await self.gateway.apply_table((FAR,), members)

    async def has(self, healthy: int) -> bool:
        """Whether both clusters have so many replicas that may be used."""
        counts = [
            await self.gateway.stat(f"cluster.{cluster}.membership_healthy")
            for cluster in (OPENAI, TRITON)
        ]
        return counts == [healthy, healthy]

    async def stat(self, name: str) -> int:
        return await self.gateway.stat(f"cluster.{OPENAI}.{name}") or 0

    async def stat_is(self, name: str, value: int) -> bool:
        return await self.stat(name) == value

    async def passed(self, checks: int) -> bool:
        return await self.stat("health_check.success") >= checks


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    issued = Certificates(tmp_path / "certificates")
    async with (
        remote_hosts(2) as (first, second),
        hosted(tmp_path, issued, first, "blue") as blue,
        hosted(tmp_path, issued, second, "green") as green,
        gateway(tmp_path, certificates=issued) as started,
    ):
        site = Site(started, blue, green)
        await site.use(blue, green)
        await eventually(lambda: site.has(2), "both are checked")
        yield site


@contextlib.asynccontextmanager
async def hosted(
    folder: Path, issued: Certificates, host: RemoteHost, marker: str
) -> AsyncIterator[Hosted]:
    certificate = issued.issue(marker, NAME, host.address)
    async with (
        FakeReplica(marker, address="127.0.0.1") as replica,
        host.forwards(replica.http_port),
        host.forwards(replica.grpc_port),
        proxy(
            folder / marker,
            certificate,
            http=replica.http_port,
            grpc=replica.grpc_port,
            address=host.address,
            host=host.command(),
        ) as process,
    ):
        yield Hosted(host, replica, process)


async def streamed(client: aiohttp.ClientSession, url: str) -> str:
    async with client.post(url, json={"model": "tiny", "stream": True}) as response:
        try:
            return " ".join((await response.text()).split())
        except aiohttp.ClientPayloadError:
            return "cut off"


async def whole(client: aiohttp.ClientSession, url: str) -> str:
    body = {"model": "tiny", "held": True}
    async with client.post(url, json=body) as response:
        answer = await response.json()
        return f"{response.status} {answer.get('marker') or answer['error']['code']}"


async def over_grpc(stub: Any, over: asyncio.Event) -> str:
    async def messages() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "tiny", "inputs": []}
        await over.wait()

    markers = []
    try:
        async for result, _ in stub.stream_infer(messages()):
            markers.append(result.get_response().model_version)
    except grpc.aio.AioRpcError as error:
        return str(error.code())
    return " ".join(markers)


async def test_what_waits_for_a_dead_host_ends_with_an_error_and_nothing_else_is_lost(
    site: Site, client: aiohttp.ClientSession
) -> None:
    both = (site.blue, site.green)
    async with triton.InferenceServerClient(site.gateway.target) as stub:
        asked = {}
        for side in both:
            await site.use(side, known=both)
            asked[side] = [
                asyncio.create_task(streamed(client, site.url)),
                asyncio.create_task(whole(client, site.url)),
                asyncio.create_task(over_grpc(stub, side.replica.release)),
            ]
            await eventually(
                lambda at=side.replica: (at.in_flight, len(at.requests)) == (2, 2),  # type: ignore[misc]
                "all three have begun",
            )
        await site.use(*both)

        site.blue.host.disconnect()
        async with asyncio.timeout(OUT_WITHIN_S):
            lost = await asyncio.gather(*asked[site.blue])
        site.green.replica.release.set()

        assert lost == LOST
        assert await asyncio.gather(*asked[site.green]) == WHOLE
    begun = [len(each.replica.requests) for each in both]
    assert begun == [2, 2], "no generation has begun twice"


async def test_a_dead_host_gets_no_request_after_5_s_until_it_is_back(site: Site) -> None:
    async with load(site.gateway.url, "tiny") as outcomes:
        await eventually(lambda: {*outcomes} == {"blue", "green"}, "both answer")
        died_s = time.monotonic()
        site.blue.host.disconnect()
        await eventually(lambda: site.has(1), "the host is out", within_s=OUT_WITHIN_S)
        await asyncio.sleep(max(0.0, died_s + OUT_WITHIN_S - time.monotonic()))
        before = Counter(outcomes)
        await eventually(lambda: outcomes["green"] > before["green"] + 500, "the other one answers")
        assert {*(Counter(outcomes) - before)} == {"green"}

        site.blue.host.connect()
        await eventually(lambda: outcomes["blue"] > before["blue"], "the host is used again")
    lost = outcomes["HTTP 503"]
    assert {*outcomes} <= {"blue", "green", "HTTP 503"}
    assert lost <= WORKERS, "those that were on the host when it died"


@pytest.mark.parametrize(("who", "pause_s"), [("proxies", 2), ("gateway", 6)])
async def test_a_pause_shorter_than_a_death_ends_no_request(
    site: Site, client: aiohttp.ClientSession, who: str, pause_s: float
) -> None:
    """Of a busy host, and of the gateway's own, whose clock goes on meanwhile."""
    sides = (site.blue, site.green)
    paused = [each.proxy for each in sides] if who == "proxies" else [site.gateway.envoy]
    asked = [
        asyncio.create_task(ask(client, site.url)) for ask in (streamed, whole) for _ in range(4)
    ]
    await eventually(lambda: sum(len(each.replica.requests) for each in sides) == 8, "all begun")

    for process in paused:
        process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(pause_s)
    for process in paused:
        process.send_signal(signal.SIGCONT)
    checks = await site.stat("health_check.success")
    await eventually(lambda: site.passed(checks + 4), "two more checks of each pass")

    assert await site.has(2)
    for each in sides:
        each.replica.release.set()
    assert {*await asyncio.gather(*asked)} <= {*WHOLE, *OF_BLUE}


async def test_a_replica_that_reads_and_answers_nothing_stays_in_use(
    tmp_path: Path, site: Site, client: aiohttp.ClientSession
) -> None:
    """An engine may be busy for longer than a death takes to be noticed."""
    over = asyncio.Event()

    async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port, host = server.sockets[0].getsockname()[1], site.blue.host
    async with (
        server,
        host.forwards(port),
        proxy(
            tmp_path / "busy",
            tmp_path / "certificates/blue",
            http=port,
            grpc=free_port(),
            address=host.address,
            host=host.command(),
        ),
    ):
        busy = Endpoint(host.address, port, healthy=True)
        await site.gateway.apply_table((FAR,), {OPENAI: (busy,)})
        body = {"model": "tiny", "prompt": "x" * 7_000_000}
        asked = asyncio.create_task(client.post(site.url, json=body))
        await eventually(lambda: site.stat_is("upstream_rq_active", 1), "the request is there")
        checks = await site.stat("health_check.success")
        await eventually(lambda: site.passed(checks + 6), "six checks in six seconds pass")

        assert not asked.done()
        assert await site.stat("membership_healthy") == 1
        assert await site.stat("http2.keepalive_timeout") == 0
        asked.cancel()
        over.set()


async def test_a_new_endpoint_gets_requests_once_it_has_passed_a_check(site: Site) -> None:
    await site.use(site.blue)
    async with load(site.gateway.url, "tiny") as outcomes:
        await eventually(lambda: outcomes["blue"] > 100, "one answers")
        for _ in range(10):
            await site.use(site.blue, site.green)
            before = outcomes["green"]
            await eventually(
                lambda n=before: outcomes["green"] > n,  # type: ignore[misc]
                "the new one answers soon after it is acknowledged",
                within_s=0.5,
            )
            await site.use(site.blue)
    assert {*outcomes} == {"blue", "green"}


async def test_an_endpoint_whose_host_was_never_reached_gets_no_request(site: Site) -> None:
    await site.use(site.blue)
    site.green.host.disconnect()
    async with load(site.gateway.url, "tiny") as outcomes:
        await site.use(site.blue, site.green)
        await eventually(lambda: outcomes["blue"] > 500, "the other one answers")
    assert {*outcomes} == {"blue"}


async def test_with_every_host_dead_a_request_is_refused_at_once(
    site: Site, client: aiohttp.ClientSession
) -> None:
    for side in (site.blue, site.green):
        side.host.disconnect()
    await eventually(lambda: site.has(0), "both are out", within_s=OUT_WITHIN_S)

    async with asyncio.timeout(1):
        assert await whole(client, site.url) == "503 no_healthy_replica"
