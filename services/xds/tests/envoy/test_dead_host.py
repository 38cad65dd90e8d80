# mypy: disable-error-code="import-untyped"
"""Replicas on two hosts. One loses its network: its packets vanish, and nothing says that it
died."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import tritonclient.grpc.aio as triton
from control_plane.routing import Endpoint
from support.death import take_for_dead
from support.load import load
from support.proxies import FAR, proxy
from support.sites import OPENAI, Site, begun, site, streamed, whole
from support.waiting import eventually, free_port

pytestmark = pytest.mark.binaries

# Of the platform 1 s and 2.5 s (bench/service_times.py): hosts may be as slow as this one may be.
UNCHECKED_S, SILENT_S = 5, 10
OF_A_DEAD_HOST = ["cut off", "200 green", "StatusCode.INTERNAL"]  # the second had not begun
OF_BLUE = ["data: blue data: [DONE]", "200 blue"]
WHOLE = ["data: green data: [DONE]", "200 green", "green"]


@pytest.fixture
def _hosts_die(monkeypatch: pytest.MonkeyPatch) -> None:
    take_for_dead(monkeypatch, unchecked_s=UNCHECKED_S, silent_s=SILENT_S)


@pytest.fixture
def _checks_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    take_for_dead(monkeypatch, unchecked_s=1)


@pytest.fixture(name="site")
async def _site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as found:
        yield found


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


@pytest.mark.usefixtures("_hosts_die")
async def test_what_a_dead_host_has_begun_breaks_off_and_what_it_has_not_is_answered_elsewhere(
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
        await eventually(lambda: len(site.green.replica.requests) == 3, "one is tried elsewhere")
        site.green.replica.release.set()

        assert await asyncio.gather(*asked[site.blue]) == OF_A_DEAD_HOST
        assert await asyncio.gather(*asked[site.green]) == WHOLE
    assert [len(each.replica.requests) for each in both] == [2, 3]


@pytest.mark.usefixtures("_hosts_die")
async def test_a_dead_host_gets_no_request_until_it_is_back(site: Site) -> None:
    site.blue.host.disconnect()
    await eventually(lambda: site.has(1), "the host is out")
    before = await site.asked(site.blue)
    async with load(site.gateway.url, "tiny") as outcomes:
        await eventually(lambda: outcomes["green"] > 500, "the other one answers")
        assert {*outcomes} == {"green"}
        assert await site.asked(site.blue) == before

        site.blue.host.connect()
        await eventually(lambda: outcomes["blue"] > 0, "the host is used again")
    assert {*outcomes} == {"blue", "green"}


@pytest.mark.usefixtures("_checks_are_short")
async def test_one_check_without_an_answer_takes_nothing_out(
    site: Site, client: aiohttp.ClientSession
) -> None:
    """A host may pause for a moment."""
    asked = [
        asyncio.create_task(ask(client, site.url)) for ask in (streamed, whole) for _ in range(4)
    ]
    await eventually(lambda: begun(site) == 8, "all have begun")

    async def tolerated() -> bool:
        """Whether the first check that failed was seen, and nothing was out."""
        await eventually(lambda: site.has(2), "both are in use")
        before = await site.stat("health_check.failure")
        site.blue.proxy.send_signal(signal.SIGSTOP)
        while (seen := await failed_and_used(site))[0] == before:
            await asyncio.sleep(0.01)
        site.blue.proxy.send_signal(signal.SIGCONT)
        return seen == (before + 1, 2)

    await eventually(tolerated, "one check fails, and both stay in use")
    for each in (site.blue, site.green):
        each.replica.release.set()
    assert {*await asyncio.gather(*asked)} <= {*WHOLE, *OF_BLUE}


async def failed_and_used(site: Site) -> tuple[int, int]:
    """Checks that failed and replicas in use, at one moment."""
    names = (f"cluster.{OPENAI}.health_check.failure", f"cluster.{OPENAI}.membership_healthy")
    lines = await site.gateway.admin(f"/stats?filter=^({'|'.join(names)})$")
    values = dict(line.split(": ") for line in lines.splitlines())
    failed, used = (int(values[name]) for name in names)
    return failed, used


@pytest.mark.usefixtures("_hosts_die")
async def test_a_pause_of_the_gateway_ends_no_request(
    site: Site, client: aiohttp.ClientSession
) -> None:
    """Its clock goes on meanwhile, and answers have come that it has not read."""
    asked = [
        asyncio.create_task(ask(client, site.url)) for ask in (streamed, whole) for _ in range(4)
    ]
    await eventually(lambda: begun(site) == 8, "all have begun")

    site.gateway.envoy.send_signal(signal.SIGSTOP)
    for each in (site.blue, site.green):
        each.replica.release.set()
    await asyncio.sleep(SILENT_S + 2)  # longer than from one ping to the end of its connection
    site.gateway.envoy.send_signal(signal.SIGCONT)

    assert {*await asyncio.gather(*asked)} <= {*WHOLE, *OF_BLUE}


@pytest.mark.usefixtures("_hosts_die")
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
        await eventually(lambda: site.passed(checks + SILENT_S + 2), "a check a second passes")

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
                "the new one answers",
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


@pytest.mark.usefixtures("_checks_are_short")
async def test_with_every_host_dead_a_request_is_refused(
    site: Site, client: aiohttp.ClientSession
) -> None:
    for side in (site.blue, site.green):
        side.host.disconnect()
    await eventually(lambda: site.has(0), "both are out")

    assert await whole(client, site.url) == "503 no_healthy_replica"
