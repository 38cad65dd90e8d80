"""A platform behind forwarded addresses, as `reach` gives them: verified by its names."""

from __future__ import annotations

import dataclasses
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from cli.applied import Applied, from_document
from cli.ui.proxy.clients import Clients
from tests.public_certificates import Issued, issue
from tests.unit.cli.documents import plan_document

NAME = "server.global.nomad"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forwarded(tmp_path: Path) -> Iterator[Applied]:
    """Its Nomad has a certificate for NAME, and no other answers at that address."""
    authority = issue("an authority", authority=True)
    server = issue(NAME, authority, dns_names=[NAME])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    put(tmp_path / "server", authority, server)
    context.load_cert_chain(tmp_path / "server/cert.pem", tmp_path / "server/key.pem")
    put(tmp_path / "operator", authority, issue("an operator", authority))
    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"https://127.0.0.1:{listening.server_port}"
        applied = dataclasses.replace(
            from_document(plan_document()), nomad=address, operator=tmp_path / "operator"
        )
        try:
            yield dataclasses.replace(applied, server_names={address: NAME})
        finally:
            listening.shutdown()
            thread.join()


def put(folder: Path, authority: Issued, issued: Issued) -> None:
    folder.mkdir()
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "cert.pem").write_text(issued.pem)
    (folder / "key.pem").write_text(issued.key_pem)


async def test_a_forwarded_server_is_verified_by_its_name(forwarded: Applied) -> None:
    async with Clients(lambda: forwarded).of("nomad") as client:
        assert (await client.get("/v1/jobs")).status_code == 200


async def test_a_forwarded_server_of_another_name_is_not_asked(forwarded: Applied) -> None:
    other = dataclasses.replace(forwarded, server_names={forwarded.nomad: "server.global.consul"})
    async with Clients(lambda: other).of("nomad") as client:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get("/v1/jobs")


async def test_an_address_that_an_up_changed_is_the_one_that_is_asked(forwarded: Applied) -> None:
    now = dataclasses.replace(forwarded, nomad="https://127.0.0.1:1")
    clients = Clients(lambda: now)
    with pytest.raises(httpx.ConnectError):
        await clients.of("nomad").get("/v1/jobs")
    now = forwarded
    assert (await clients.of("nomad").get("/v1/jobs")).status_code == 200
    assert clients.of("nomad") is clients.of("nomad")
    await clients.close()


async def test_a_certificate_that_an_up_changed_is_the_one_that_is_shown(
    forwarded: Applied, tmp_path: Path
) -> None:
    right = tmp_path / "right"
    forwarded.operator.rename(right)
    another = issue("another authority", authority=True)
    put(forwarded.operator, another, issue("an operator", another))
    clients = Clients(lambda: forwarded)
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        await clients.of("nomad").get("/v1/jobs")
    for file in right.iterdir():
        (forwarded.operator / file.name).write_bytes(file.read_bytes())
    assert (await clients.of("nomad").get("/v1/jobs")).status_code == 200
    await clients.close()
