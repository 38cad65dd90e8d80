"""The page that Prometheus reads, over TLS with certificates on both sides."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from program.certificate import AUTHORITY, CERTIFICATE, KEY

from admission.verdicts import Admission

PATH = "/metrics"
ADMITTED = "slipway_fabric_admitted"
SILENCE_S = 10.0
_HEAD = (
    f"# HELP {ADMITTED} Whether the host takes members of groups; `reason` says why not.\n"
    f"# TYPE {ADMITTED} gauge\n"
)


def exposition(known: Mapping[tuple[str, str], Admission]) -> str:
    """`known` is by pool and host."""
    lines = [
        f"{ADMITTED}{_labels(pool, host, each)} {int(each.admitted)}\n"
        for (pool, host), each in sorted(known.items())
    ]
    return _HEAD + "".join(lines)


def _labels(pool: str, host: str, admission: Admission) -> str:
    labels = {
        "host": host,
        "pool": pool,
        "verdict": admission.verdict,
        "reason": admission.reason,
        "fix": admission.fix,
    }
    written = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(written) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


class Page(ThreadingTCPServer):
    """Verifies clients in threads of their own, so that none holds up the others. Not an
    HTTPServer, which looks up the name of its address before it listens."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], certificate: Path, reader: str, text: Callable[[], str]
    ) -> None:
        """`certificate` is a folder, and `reader` the name of who may read. Raises OSError if the
        address is taken, or a file cannot be read."""
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(certificate / AUTHORITY)
        )
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it may be an intermediate
        context.load_cert_chain(certificate / CERTIFICATE, certificate / KEY)
        super().__init__(address, _Handler)
        self.reader, self.text = reader, text
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that speaks no TLS, or shows no certificate, is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Page
    timeout = SILENCE_S

    def setup(self) -> None:
        super().setup()
        self.request.do_handshake()

    def do_GET(self) -> None:
        if self.path != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
        elif not self._may_read():
            self.send_error(HTTPStatus.FORBIDDEN)
        else:
            body = self.server.text().encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def _may_read(self) -> bool:
        shown = (self.request.getpeercert() or {}).get("subjectAltName", ())
        return ("DNS", self.server.reader) in shown

    def log_message(self, *_: Any) -> None:
        """Nomad's log is no place for every question of Prometheus."""
