"""Programs of the operator's machine reach servers through SSH, and verify them by their names."""

from __future__ import annotations

import http.server
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority
from program.certificate import FILES
from program.errors import InputError
from program.forwards import VARIABLE, Way, way_to
from program.http_json import ApiError, operators
from served import served

SERVER_NAME = "server.global.nomad"
ASKED = "https://10.0.0.1:4646"


class Yes(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'"yes"')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forwarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a server is reached whose certificate has a name and no address."""
    authority = Authority()
    for folder, files in (
        ("server", authority.issue("server", [SERVER_NAME])),
        ("operator", authority.issue("operator")),
    ):
        (tmp_path / folder).mkdir()
        for name in FILES:
            (tmp_path / folder / name).write_text(files[name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server/cert.pem", tmp_path / "server/key.pem")
    monkeypatch.setenv("SLIPWAY_RUN", str(tmp_path))
    with served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Yes)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield f"127.0.0.1:{server.server_port}"


def say(monkeypatch: pytest.MonkeyPatch, at: str, server_name: str) -> None:
    ways = {"10.0.0.1:4646": {"at": at, "server_name": server_name}}
    monkeypatch.setenv(VARIABLE, json.dumps({"schema_version": 1, "forwards": ways}))


def test_a_forwarded_server_is_verified_by_its_name(
    forwarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, forwarded, SERVER_NAME)
    assert operators(ASKED).get("/") == "yes"


@pytest.mark.parametrize("name", ["client.global.nomad", ""])
def test_a_server_with_another_name_is_refused(
    forwarded: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    say(monkeypatch, forwarded, name)
    with pytest.raises(ApiError, match="certificate verify failed") as refused:
        operators(ASKED).get("/")
    assert ASKED in str(refused.value), "named as it was asked for"


def test_what_is_not_forwarded_is_asked_itself() -> None:
    assert way_to(ASKED, {}) == Way(ASKED)
    nothing = json.dumps({"schema_version": 1, "forwards": {}})
    assert way_to(ASKED, {VARIABLE: nothing}) == Way(ASKED)


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"schema_version": 2, "forwards": {}}', '{"schema_version": 1}']
)
def test_a_document_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=VARIABLE):
        way_to(ASKED, {VARIABLE: text})
