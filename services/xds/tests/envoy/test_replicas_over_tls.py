# mypy: disable-error-code="import-untyped"
"""Real gateways and real proxies before replicas: TLS with certificates of both sides."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from control_plane.resources.routes import RETRIES
from control_plane.routing import Endpoint
from support.bootstrap import own_der
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway
from support.issued import Certificates
from support.load import load
from support.proxies import FAR, GATEWAY, NAME, PROXY, proxy
from support.waiting import eventually, free_port
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.binaries


@pytest.fixture
def issued(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


@pytest.fixture
async def blue() -> AsyncIterator[FakeReplica]:
    async with FakeReplica("blue", address="127.0.0.1") as replica:
        yield replica


@pytest.fixture(name="gateway")
async def _gateway(tmp_path: Path, issued: Certificates) -> AsyncIterator[Gateway]:
    async with gateway(tmp_path, certificates=issued) as started:
        yield started


@pytest.fixture
async def proxied(
    tmp_path: Path, issued: Certificates, blue: FakeReplica
) -> AsyncIterator[FakeReplica]:
    """A replica behind the proxy of its node."""
    node = issued.issue("node", NAME, PROXY)
    async with proxy(tmp_path / "proxy", node, http=blue.http_port, grpc=blue.grpc_port):
        yield blue


def far(replica: FakeReplica) -> dict[str, tuple[Endpoint, ...]]:
    """The endpoints of a replica behind a proxy."""
    return {
        "model_tiny_1_openai": (Endpoint(PROXY, replica.http_port, healthy=True),),
        "model_tiny_1_grpc": (Endpoint(PROXY, replica.grpc_port, healthy=True),),
    }


async def complete(client: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with client.post(f"{url}/v1/completions", json={"model": "tiny"}) as response:
        return response.status, await response.text()


async def test_both_protocols_reach_a_replica_over_tls(
    gateway: Gateway, proxied: FakeReplica, client: aiohttp.ClientSession
) -> None:
    await gateway.apply(FAR, **far(proxied))

    assert (await complete(client, gateway.url))[0] == 200
    async with triton.InferenceServerClient(gateway.target) as stub:
        answer = await stub.infer("tiny", inputs=[])
    assert answer.get_response().model_version == "blue"


# Who asks: a name and an address in its certificate, and the status of the answer.
CLIENTS = {
    "the gateway": (GATEWAY, "", 200),
    "the node itself": ("client.global.nomad", PROXY, 200),
    "another node": ("client.global.nomad", "127.0.0.8", None),
    "another role": ("xds.test.slipway", "", None),
    "the operator": ("", "", None),
}


async def test_the_proxy_lets_in_the_gateway_and_its_own_node_only(
    issued: Certificates, proxied: FakeReplica
) -> None:
    answers = {}
    for who, (dns_name, address, _) in CLIENTS.items():
        shown = issued.issue(who, dns_name, address)
        answers[who] = await _asked(proxied, issued.client(shown))

    assert answers == {who: status for who, (_, _, status) in CLIENTS.items()}


async def test_the_proxy_refuses_strangers_and_plain_text(
    tmp_path: Path, issued: Certificates, proxied: FakeReplica
) -> None:
    stranger = Certificates(tmp_path / "others").issue("gateway", GATEWAY)
    expired = issued.issue("expired", GATEWAY, days=-1)

    assert await _asked(proxied, issued.client(stranger)) is None
    assert await _asked(proxied, issued.client(expired)) is None
    assert await _asked(proxied, issued.client()) is None
    assert await _asked(proxied, None) is None
    assert proxied.requests == []


async def test_the_gateway_trusts_no_host_but_a_node(
    tmp_path: Path,
    issued: Certificates,
    gateway: Gateway,
    blue: FakeReplica,
    client: aiohttp.ClientSession,
) -> None:
    server = issued.issue("server", "server.global.nomad", PROXY)
    async with proxy(tmp_path / "proxy", server, http=blue.http_port, grpc=blue.grpc_port):
        await gateway.apply(FAR, **far(blue))

        status, text = await complete(client, gateway.url)

    assert status == 503, text
    assert blue.requests == []


@contextlib.asynccontextmanager
async def beside_a_proxy_without_a_replica(
    tmp_path: Path, issued: Certificates, gateway: Gateway, living: FakeReplica
) -> AsyncIterator[None]:
    """The gateway has two endpoints, of which one has lost its replica."""
    node, dead, gone = issued.folder / "node", free_port(), "127.0.0.10"
    async with proxy(tmp_path / "second", node, http=dead, grpc=free_port(), address=gone):
        first = far(living)["model_tiny_1_openai"]
        await gateway.apply(FAR, model_tiny_1_openai=(*first, Endpoint(gone, dead, healthy=True)))
        yield


async def test_a_request_to_a_proxy_without_a_replica_is_answered_by_another(
    tmp_path: Path,
    issued: Certificates,
    gateway: Gateway,
    proxied: FakeReplica,
    client: aiohttp.ClientSession,
) -> None:
    async with beside_a_proxy_without_a_replica(tmp_path, issued, gateway, proxied):
        answers = [await complete(client, gateway.url) for _ in range(200)]

    assert [status for status, _ in answers] == [200] * 200


async def test_a_replica_that_is_gone_stays_out_though_its_proxy_answers_checks(
    tmp_path: Path,
    issued: Certificates,
    gateway: Gateway,
    proxied: FakeReplica,
    client: aiohttp.ClientSession,
) -> None:
    async with beside_a_proxy_without_a_replica(tmp_path, issued, gateway, proxied):
        name = "cluster.model-tiny-1-openai"

        async def ejected() -> bool:
            await complete(client, gateway.url)
            return await gateway.stat(f"{name}.outlier_detection.ejections_active") == 1

        await eventually(ejected, "the one without a replica is ejected")
        checks = await gateway.stat(f"{name}.health_check.success") or 0

        async def checked() -> bool:
            assert await ejected()
            return (await gateway.stat(f"{name}.health_check.success") or 0) >= checks + 4

        await eventually(checked, "two more checks of each have passed")


async def test_one_that_stands_still_is_out_until_it_moves_though_its_host_lives(
    tmp_path: Path,
    issued: Certificates,
    gateway: Gateway,
    blue: FakeReplica,
    client: aiohttp.ClientSession,
) -> None:
    node = issued.issue("node", NAME, PROXY)
    ports = {"http": blue.http_port, "grpc": blue.grpc_port, "liveness": blue.http_port}
    async with proxy(tmp_path / "proxy", node, **ports):
        await gateway.apply(FAR, **far(blue))
        for moving, used in ((True, 1), (False, 0), (True, 1)):
            blue.moving = moving
            for protocol in ("openai", "grpc"):
                name = f"cluster.model-tiny-1-{protocol}.membership_healthy"

                async def reached(of: str = name, count: int = used) -> bool:
                    return await gateway.stat(of) == count

                await eventually(reached, f"{used} is in use")
        assert (await complete(client, gateway.url))[0] == 200


class Dying:
    """Replicas on one port that break the connection once a gRPC request has begun."""

    def __init__(self) -> None:
        self.begun = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))  # an empty SETTINGS frame
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readexactly(24)  # the preface
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3]))
                if head[3] == 1:  # HEADERS
                    self.begun += 1
                    writer.transport.abort()
                    return


async def test_a_request_that_each_replica_dies_of_is_tried_on_no_more_than_these(
    tmp_path: Path, issued: Certificates, gateway: Gateway
) -> None:
    node, dying = issued.issue("node", NAME, PROXY), Dying()
    server = await asyncio.start_server(dying.connected, "127.0.0.1", 0)
    port, second = server.sockets[0].getsockname()[1], "127.0.0.10"
    ports = {"http": free_port(), "grpc": port}
    async with (
        server,
        proxy(tmp_path / "proxy", node, **ports),
        proxy(tmp_path / "second", node, **ports, address=second),
    ):
        both = tuple(Endpoint(address, port, healthy=True) for address in (PROXY, second))
        await gateway.apply(FAR, model_tiny_1_grpc=both)
        async with triton.InferenceServerClient(gateway.target) as stub:
            with pytest.raises(InferenceServerException) as failed:
                await stub.infer("tiny", inputs=[])

    assert dying.begun == 1 + RETRIES
    assert failed.value.status() == "StatusCode.UNAVAILABLE"


async def test_a_client_that_leaves_ends_its_generation(
    gateway: Gateway, proxied: FakeReplica
) -> None:
    await gateway.apply(FAR, **far(proxied))
    body = {"model": "tiny", "stream": True}
    async with (
        aiohttp.ClientSession() as leaving,
        leaving.post(f"{gateway.url}/v1/completions", json=body) as stream,
    ):
        assert await stream.content.readany() == b"data: blue\n\n"
        assert proxied.in_flight == 1
        stream.close()

    await eventually(lambda: proxied.in_flight == 0, "the generation has ended")


async def test_renewed_certificates_are_taken_up_without_a_failed_request(
    issued: Certificates, gateway: Gateway, proxied: FakeReplica
) -> None:
    await gateway.apply(FAR, **far(proxied))
    async with load(gateway.url, "tiny") as outcomes:
        for days in (2, 3, 4):
            issued.issue("node", NAME, PROXY, days=days)
            issued.issue("gateway", GATEWAY, days=days)
            renewed = own_der((issued.folder / "node/cert.pem").read_text())
            shows = functools.partial(_shows, proxied.http_port, issued, renewed)
            await eventually(shows, "the renewed one is shown")

    assert set(outcomes) == {"blue"}


async def _asked(replica: FakeReplica, context: ssl.SSLContext | None) -> int | None:
    """The status of an answer of the proxy; None if it refuses."""
    scheme = "http" if context is None else "https"
    try:
        async with (
            aiohttp.ClientSession() as client,
            client.get(
                f"{scheme}://{PROXY}:{replica.http_port}/health", ssl=context or True
            ) as response,
        ):
            return response.status
    except aiohttp.ClientError:
        return None


async def _shows(port: int, issued: Certificates, certificate: bytes) -> bool:
    context = issued.client(issued.folder / "gateway")
    try:
        _, writer = await asyncio.open_connection(PROXY, port, ssl=context)
    except (OSError, ssl.SSLError):
        return False
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return bool(shown == certificate)
