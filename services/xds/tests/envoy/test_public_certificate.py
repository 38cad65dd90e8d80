# mypy: disable-error-code="import-untyped"
"""Clients speak TLS to a real Envoy, and its certificate is replaced while they do."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import tritonclient.grpc.aio as triton
from hang import HANG_S
from support.bootstrap import certificates, own_der, public_secret
from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway, route
from support.waiting import ADDRESS, eventually

pytestmark = pytest.mark.binaries

NAME = "llm.example.com"
ROTATIONS = 10


class Public:
    """The certificate for clients, in the file that Envoy watches. Each has a key of its own."""

    def __init__(self, folder: Path) -> None:
        self.authority = certificates()
        self.ca = folder / "public-ca.pem"
        self.ca.write_text(self.authority.pem)
        self.path, _ = public_secret({"cert.pem": "", "key.pem": ""})
        self._file = folder / self.path
        self._file.parent.mkdir()

    def issue(self) -> dict[str, str]:
        files: dict[str, str] = self.authority.issue(NAME, [NAME])
        return files

    def put(self, files: dict[str, str]) -> str:
        """Replaces the file as Nomad does; returns the certificate's fingerprint."""
        _, content = public_secret(files)
        new = self._file.with_suffix(".new")
        new.write_text(content)
        new.replace(self._file)
        return hashlib.sha256(own_der(files["cert.pem"])).hexdigest()

    def trusted(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


@pytest.fixture
def public(tmp_path: Path) -> Public:
    return Public(tmp_path)


@pytest.fixture(name="gateway")
async def _gateway(tmp_path: Path, public: Public, blue: FakeReplica) -> AsyncIterator[Gateway]:
    public.put(public.issue())
    async with gateway(tmp_path, public=public.path) as started:
        endpoints = {"model_tiny_1_openai": (blue.openai(),), "model_tiny_1_grpc": (blue.grpc(),)}
        await started.apply(route("tiny"), **endpoints)
        yield started


async def connect(gateway: Gateway, context: ssl.SSLContext) -> ssl.SSLObject:
    """The TLS of a new connection, which is closed again."""
    _, writer = await asyncio.open_connection(
        ADDRESS, gateway.address.port, ssl=context, server_hostname=NAME
    )
    connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.close()
    return connection


async def shown(gateway: Gateway, public: Public) -> str:
    connection = await connect(gateway, public.trusted())
    return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()


def showing(gateway: Gateway, public: Public, fingerprint: str) -> Callable[[], Any]:
    async def check() -> bool:
        return await shown(gateway, public) == fingerprint

    return check


async def test_both_versions_of_http_are_negotiated_and_h2_is_preferred(
    gateway: Gateway, public: Public
) -> None:
    for offered, selected in (
        (["h2"], "h2"),
        (["http/1.1"], "http/1.1"),
        (["http/1.1", "h2"], "h2"),
    ):
        context = public.trusted()
        context.set_alpn_protocols(offered)

        connection = await connect(gateway, context)

        assert connection.selected_alpn_protocol() == selected
        assert connection.version() == "TLSv1.3"


async def test_tls_1_2_is_the_oldest_version(gateway: Gateway, public: Public) -> None:
    context = public.trusted()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert (await connect(gateway, context)).version() == "TLSv1.2"

    context.set_ciphers("ALL:@SECLEVEL=0")  # otherwise the client itself refuses
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        await connect(gateway, context)


async def test_openai_and_grpc_answer_at_the_same_address(
    gateway: Gateway, public: Public, client: aiohttp.ClientSession
) -> None:
    async with client.post(
        f"{gateway.url}/v1/completions",
        json={"model": "tiny"},
        ssl=public.trusted(),
        server_hostname=NAME,
    ) as response:
        assert (response.status, (await response.json())["marker"]) == (200, "blue")
    async with grpc_client(gateway, public) as triton_client:
        answer = await triton_client.infer("tiny", inputs=[])
    assert answer.get_response().model_version == "blue"


def grpc_client(gateway: Gateway, public: Public) -> Any:
    return triton.InferenceServerClient(
        gateway.target,
        ssl=True,
        root_certificates=str(public.ca),
        channel_args=[("grpc.ssl_target_name_override", NAME)],
    )


async def test_plain_http_gets_no_answer(gateway: Gateway, client: aiohttp.ClientSession) -> None:
    before = await gateway.stat("http.gateway.downstream_rq_total")
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.get(f"http://{gateway.target}/healthz")
    assert before is not None
    assert await gateway.stat("http.gateway.downstream_rq_total") == before


async def test_a_client_that_expects_another_name_or_authority_does_not_connect(
    gateway: Gateway, public: Public
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(gateway, ssl.create_default_context(cadata=certificates().pem))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'other\.example\.com'"):
        await asyncio.open_connection(
            ADDRESS,
            gateway.address.port,
            ssl=public.trusted(),
            server_hostname="other.example.com",
        )


async def test_streams_go_on_while_the_certificate_is_replaced(
    gateway: Gateway, public: Public, blue: FakeReplica, client: aiohttp.ClientSession
) -> None:
    process = gateway.envoy.pid
    listeners = await gateway.admin("/stats?filter=^listener_manager.listener_")
    url, trusted = f"{gateway.url}/v1/completions", public.trusted()
    body = {"model": "tiny", "stream": True}
    streams = []
    async with grpc_client(gateway, public) as triton_client:
        answers, say_next = grpc_stream(triton_client)
        for _ in range(ROTATIONS):
            # One more stream on a connection with the certificate that is about to go.
            stream = await client.post(url, json=body, ssl=trusted, server_hostname=NAME)
            assert await stream.content.readuntil(b"\n\n") == b"data: blue\n\n"
            streams.append(stream)
            say_next.set()
            assert (await anext(answers))[1] is None
            fingerprint = public.put(public.issue())
            await eventually(showing(gateway, public, fingerprint), "the new one is shown")
        say_next.set()
        assert (await anext(answers))[1] is None
        answers.cancel()
    blue.release.set()
    endings = [await asyncio.wait_for(stream.read(), HANG_S) for stream in streams]

    assert endings == [b"data: [DONE]\n\n"] * ROTATIONS
    assert gateway.envoy.pid == process
    assert gateway.envoy.returncode is None
    assert await gateway.admin("/stats?filter=^listener_manager.listener_") == listeners
    assert await gateway.stat("listener_manager.total_listeners_draining") == 0


def grpc_stream(client: Any) -> tuple[Any, asyncio.Event]:
    """A stream's answers, and the event that sends its next request."""
    say_next = asyncio.Event()

    async def requests() -> AsyncIterator[dict[str, Any]]:
        while True:
            await say_next.wait()
            say_next.clear()
            yield {"model_name": "tiny", "inputs": []}

    return client.stream_infer(requests()), say_next


async def test_a_key_of_another_certificate_changes_nothing(
    gateway: Gateway, public: Public
) -> None:
    before = await shown(gateway, public)

    public.put({**public.issue(), "key.pem": public.issue()["key.pem"]})
    await eventually(refused(gateway), "Envoy refuses it")

    assert await shown(gateway, public) == before
    good = public.put(public.issue())
    await eventually(showing(gateway, public, good), "the next good one is shown")


def refused(gateway: Gateway) -> Callable[[], Any]:
    async def check() -> bool:
        return await gateway.stat("sds.public.update_rejected") == 1

    return check
