"""A page of figures for Prometheus over TLS, for clients whose certificate has one of the names
that may read."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from program.certificate import AUTHORITY, CERTIFICATE, KEY

PATH = "/metrics"
SILENCE_S = 10.0


class FiguresServer(ThreadingTCPServer):
    """Connections are verified in their own threads, so that none holds up the others. Not an
    HTTPServer, which looks up the name of its address before it listens."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        certificate: Path,
        readers: Collection[str],
        figures: Callable[[], bytes],
    ) -> None:
        """`certificate` is the folder of one (program/certificate.py). Raises OSError if the
        address is taken or a file cannot be read."""
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(certificate / AUTHORITY)
        )
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it may be an intermediate
        context.load_cert_chain(certificate / CERTIFICATE, certificate / KEY)
        super().__init__(address, _Handler)
        self.readers, self.figures = frozenset(readers), figures
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that speaks no TLS, or shows no certificate, is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: FiguresServer
    timeout = SILENCE_S

    def setup(self) -> None:
        super().setup()
        self.request.do_handshake()

    def do_GET(self) -> None:
        if not self.server.readers & _names(self.request.getpeercert()):
            self.send_error(403)
        elif self.path.partition("?")[0] != PATH:
            self.send_error(404)
        else:
            body = self.server.figures()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nomad's log is no place for every question of Prometheus."""


def _names(certificate: Any) -> set[str]:
    alternatives = (certificate or {}).get("subjectAltName", ())
    return {name for kind, name in alternatives if kind == "DNS"}
