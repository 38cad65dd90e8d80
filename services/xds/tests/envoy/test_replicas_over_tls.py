# mypy: disable-error-code="import-untyped"
"""Real gateways and real proxies before replicas: TLS with certificates of both sides."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from control_plane.routing import Endpoint
from support import tools
from support.bootstrap import certificates, gateway_secrets, tls_proxy
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway, route
from support.load import load
from support.processes import running
from support.waiting import eventually, free_port
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.binaries

NAME, GATEWAY = "replica.test.slipway", "gateway.test.slipway"
PROXY = "127.0.0.9"  # where the node is; its replica listens on 127.0.0.1
FAR = route("tiny", server_name=NAME)


class Certificates:
    """The files of certificates of one authority, in folders by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates()

    def issue(self, name: str, dns_name: str = "", address: str = "", **options: Any) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        files = self.authority.issue(
            name, [dns_name] if dns_name else [], [address] if address else [], **options
        )
        for file, content in files.items():  # as services/node replaces them
            (folder / f".{file}").write_text(content, encoding="utf-8")
            (folder / f".{file}").replace(folder / file)
        return folder


@pytest.fixture
def issued(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


@pytest.fixture
async def blue() -> AsyncIterator[FakeReplica]:
    async with FakeReplica("blue", address="127.0.0.1") as replica:
        yield replica


@pytest.fixture(name="gateway")
async def _gateway(tmp_path: Path, issued: Certificates) -> AsyncIterator[Gateway]:
    (tmp_path / "local").mkdir()
    for path, content in gateway_secrets(issued.issue("gateway", GATEWAY)).items():
        (tmp_path / path).write_text(content, encoding="utf-8")
    async with gateway(tmp_path) as started:
        yield started


@pytest.fixture
async def proxied(
    tmp_path: Path, issued: Certificates, blue: FakeReplica
) -> AsyncIterator[FakeReplica]:
    """A replica behind the proxy of its node."""
    node = issued.issue("node", NAME, PROXY)
    async with proxy(tmp_path / "proxy", node, http=blue.http_port, grpc=blue.grpc_port):
        yield blue


@contextlib.asynccontextmanager
async def proxy(
    folder: Path, certificate: Path, *, http: int, grpc: int, address: str = PROXY
) -> AsyncIterator[None]:
    """The proxy of a replica that listens on these ports of 127.0.0.1, if it does."""
    files = tls_proxy(
        address,
        ports={"openai": http, "grpc": grpc},
        certificate=certificate,
        name=NAME,
        clients=[GATEWAY],
    )
    (folder / "local").mkdir(parents=True)
    for path, content in files.items():
        (folder / path).write_text(content, encoding="utf-8")
    command = [tools.find("envoy"), "--config-path", "local/envoy.json", "--concurrency", "1"]
    command += ["--disable-hot-restart", "--log-level", "warning"]
    async with running(*command, log=folder / "envoy.log", folder=folder):
        await eventually(lambda: _listens(address, http), "the proxy listens")
        yield


async def _listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True


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


@pytest.mark.parametrize(
    ("who", "dns_name", "address", "answered"),
    [
        ("the gateway", GATEWAY, "", True),
        ("the node itself", "client.global.nomad", PROXY, True),
        ("another node", "client.global.nomad", "127.0.0.8", False),
        ("another role", "xds.test.slipway", "", False),
        ("the operator", "", "", False),
    ],
)
async def test_the_proxy_lets_in_the_gateway_and_its_own_node_only(
    issued: Certificates,
    proxied: FakeReplica,
    who: str,
    dns_name: str,
    address: str,
    *,
    answered: bool,
) -> None:
    shown = issued.issue(who, dns_name, address)

    status = await _asked(proxied, _context(issued, shown))

    assert status == (200 if answered else None)


async def test_the_proxy_refuses_strangers_and_plain_text(
    tmp_path: Path, issued: Certificates, proxied: FakeReplica
) -> None:
    stranger = Certificates(tmp_path / "others").issue("gateway", GATEWAY)
    expired = issued.issue("expired", GATEWAY, days=-1)

    assert await _asked(proxied, _context(issued, stranger)) is None
    assert await _asked(proxied, _context(issued, expired)) is None
    assert await _asked(proxied, _context(issued, None)) is None
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


async def test_a_request_to_a_proxy_without_a_replica_is_answered_by_another(
    tmp_path: Path,
    issued: Certificates,
    gateway: Gateway,
    proxied: FakeReplica,
    client: aiohttp.ClientSession,
) -> None:
    node, dead, gone = issued.folder / "node", free_port(), "127.0.0.10"
    async with proxy(tmp_path / "second", node, http=dead, grpc=free_port(), address=gone):
        living = far(proxied)["model_tiny_1_openai"]
        await gateway.apply(FAR, model_tiny_1_openai=(*living, Endpoint(gone, dead, healthy=True)))
        answers = [await complete(client, gateway.url) for _ in range(200)]

    assert [status for status, _ in answers] == [200] * 200


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


async def test_a_generation_that_a_dying_replica_has_begun_is_not_begun_again(
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

    assert dying.begun == 1
    assert failed.value.status() == "StatusCode.UNKNOWN"


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
            renewed = _der((issued.folder / "node/cert.pem").read_text())
            shows = functools.partial(_shows, proxied.http_port, issued, renewed)
            await eventually(shows, "the renewed one is shown")

    assert set(outcomes) == {"blue"}


def _context(issued: Certificates, shown: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=issued.authority.pem)
    if shown is not None:
        context.load_cert_chain(shown / "cert.pem", shown / "key.pem")
    return context


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


def _der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)


async def _shows(port: int, issued: Certificates, certificate: bytes) -> bool:
    context = _context(issued, issued.folder / "gateway")
    try:
        _, writer = await asyncio.open_connection(PROXY, port, ssl=context)
    except (OSError, ssl.SSLError):
        return False
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return bool(shown == certificate)
