"""GET /slipway/live: 200 while the replica moves, 503 while it stands still."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from program.liveness.watcher import Verdict

PATH = "/slipway/live"


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # kept-alive connections do not delay the end

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own also asks the resolver for a name

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # such as a client that has left
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def page(address: str, port: int, verdict: Callable[[], Verdict]) -> Iterator[None]:
    """Serves the page within the block. Raises OSError if it cannot listen."""
    with _Server((address, port), _handler(verdict)) as server:
        thread = threading.Thread(target=server.serve_forever, name="liveness page", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def _handler(verdict: Callable[[], Verdict]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections of health checks
        wbufsize = -1  # an answer is one packet

        def do_GET(self) -> None:
            if self.path != PATH:
                self.send_error(404)
                return
            now = verdict()
            body = now.line().encode()
            self.send_response(200 if now.moving else 503)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """One each second would fill the log."""

    return Handler
