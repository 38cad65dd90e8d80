"""Serves Nomad's public keys of workload identities to Consul, beside each Nomad server.

    publish_keys.py -config=FILE     the agent's configuration: listen (address, port), nomad (URL)

Consul verifies workload identities with keys that it fetches without a client certificate, and
Nomad's own API refuses such clients. The keys are public, so this server needs no credential. It
asks the Nomad server beside it with the host's certificate; without a leader that has no answer.
"""

from __future__ import annotations

import argparse
import json
import signal
import ssl
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from program.certificate import CERTIFICATE, KEY, of_agent
from program.errors import exit_code
from program.http_json import Api, ApiError

PATH = "/.well-known/jwks.json"
READY_PATH = "/ready"  # 200, whether or not Nomad has a leader
REQUEST_TIMEOUT_S = 10


class Handler(BaseHTTPRequestHandler):
    """One connection, with one request."""

    server: Server
    timeout = REQUEST_TIMEOUT_S  # of each read, the TLS handshake included

    def do_GET(self) -> None:
        if self.path == READY_PATH:
            self._answer({})
        elif self.path == PATH:
            self._answer_keys()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer_keys(self) -> None:
        try:
            self._answer(self.server.nomad.get(PATH))
        except ApiError as error:
            self.send_error(HTTPStatus.BAD_GATEWAY, explain=str(error))

    def _answer(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: Consul asks each time it sees an identity with a new key."""


class Server(ThreadingTCPServer):
    """Not an HTTPServer: that one looks up the name of its address before it listens, which takes
    long where no DNS server answers."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], nomad: Api, certificate: Path) -> None:
        self.nomad = nomad
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate / CERTIFICATE, certificate / KEY)
        super().__init__(address, Handler)

    def get_request(self) -> tuple[Any, Any]:
        """The handshake is left to the connection's own thread: a client that stays silent must not
        keep others waiting."""
        connection, address = super().get_request()
        secured = self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        return secured, address

    def handle_error(self, *_: Any) -> None:
        """A client that went away, or does not trust the certificate: nobody needs to know."""


def run(file: Path) -> None:
    configuration = json.loads(file.read_text())
    certificate = of_agent(file.parent)
    listen = configuration["listen"]
    nomad = Api(configuration["nomad"], certificate=certificate)
    with Server((listen["address"], listen["port"]), nomad, certificate) as server:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(prog="publish_keys.py")
    parser.add_argument("-config", type=Path, required=True)
    file: Path = parser.parse_args().config
    return exit_code(lambda: run(file))
