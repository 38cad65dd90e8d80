"""Both protocols over TLS: the gateway is known by a name that is not its address."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from cli.applied import from_document
from cli.bench.openai_door import OpenAiDoor
from cli.bench.outcome import Answered, Failed, Outcome
from cli.bench.workload import Prompt
from cli.certificates import PublicTls
from cli.errors import CliError
from cli.protocols import openai_http, triton_grpc
from cli.protocols.answer import Answer, NoAnswerError, collect
from cli.views.gateway_line import gateway_line
from tests.public_certificates import NAME, PublicAuthority, put
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import ANSWER, Triton
from tests.waiting import HANG_S

AUTHORITY = PublicAuthority()
HTTPS = (f"{NETWORK}.5", 8443)
GRPCS = f"{NETWORK}.5:8444"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the certificate of a gateway, and the authority of its clients."""
    issued = AUTHORITY.issue()
    put(tmp_path, cert=AUTHORITY.chain(issued), key=issued.key_pem)
    (tmp_path / "ca.pem").write_text(AUTHORITY.root.pem)
    return tmp_path


@pytest.fixture
def https(folder: Path) -> Iterator[str]:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with HTTPServer(HTTPS, Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://{HTTPS[0]}:{HTTPS[1]}"
        finally:
            server.shutdown()
            thread.join()


async def over_grpc(folder: Path, tls: PublicTls) -> Answer:
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Triton(["Par", "is."]), server)
    pair = ((folder / "key.pem").read_bytes(), (folder / "cert.pem").read_bytes())
    assert server.add_secure_port(GRPCS, grpc.ssl_server_credentials([pair]))
    await server.start()
    try:
        pieces = triton_grpc.stream_chat(
            GRPCS, "smollm2", "hello", max_tokens=8, timeout_s=HANG_S, tls=tls
        )
        return await collect(pieces)
    finally:
        await server.stop(grace=0)


async def over_https(url: str, tls: PublicTls) -> Answer:
    return await collect(openai_http.stream_chat(url, "smollm2", "hello", max_tokens=8, tls=tls))


async def measured(url: str, tls: PublicTls) -> Outcome:
    """By a client of `slipway bench`."""
    door = OpenAiDoor(
        gateway=url,
        model="smollm2",
        timeout_s=HANG_S,
        now_s=time.monotonic,
        tls=tls.context(),
        server_name=tls.name,
    )
    async with door.client() as ask:
        return await ask(Prompt(text="hello", max_tokens=8))


async def test_an_answer_comes_from_who_has_the_certificate(https: str, folder: Path) -> None:
    tls = PublicTls(name=NAME, authorities=folder / "ca.pem")
    assert (await over_https(https, tls)).text == "The capital is Paris."
    assert (await over_grpc(folder, tls)).text == "Paris."
    assert isinstance(await measured(https, tls), Answered)


@pytest.mark.parametrize(
    "known_by",
    [
        lambda folder: PublicTls(name="other.example.com", authorities=folder / "ca.pem"),
        lambda _: PublicTls(name=NAME, authorities=None),
    ],
    ids=["name", "authority"],
)
async def test_no_other_is_asked(
    https: str, folder: Path, known_by: Callable[[Path], PublicTls]
) -> None:
    with pytest.raises(NoAnswerError, match="CERTIFICATE_VERIFY_FAILED"):
        await over_https(https, known_by(folder))
    with pytest.raises(NoAnswerError, match="UNAVAILABLE"):
        await over_grpc(folder, known_by(folder))
    refused = await measured(https, known_by(folder))
    assert isinstance(refused, Failed)
    assert refused.kind == "TLS"
    assert "CERTIFICATE_VERIFY_FAILED" in refused.said


def clients(**tls: str) -> dict[str, Any]:
    document = plan_document()
    document["gateway"]["clients"].update(tls)
    return document


def test_the_applied_plan_says_how_the_gateway_is_known() -> None:
    assert from_document(clients()).tls is None
    assert "server_name" not in from_document(clients()).gateway
    https = {"scheme": "https", "server_name": NAME}
    system = from_document(clients(**https, ca="system")).tls
    assert system == PublicTls(name=NAME, authorities=None)
    shown = from_document(clients(**https, ca="system")).gateway
    assert shown["http"].startswith("https://")
    assert gateway_line(shown).endswith(f"its certificate is for {NAME}")
    own = from_document(clients(**https, ca="tls/ca.pem"), checkout=Path("/checkout")).tls
    assert own == PublicTls(name=NAME, authorities=Path("/checkout/tls/ca.pem"))


def test_a_file_of_authorities_that_is_gone_is_named(tmp_path: Path) -> None:
    tls = PublicTls(name=NAME, authorities=tmp_path / "none.pem")
    with pytest.raises(CliError, match=r"there is no file .*none\.pem"):
        tls.context()
