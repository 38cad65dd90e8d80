"""A package index with one wheel, sent slowly; the first connection breaks off half-way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ADDRESS = "127.92.0.8"
PIECES = 50


class Registry:
    """`starts`: where in the wheel each answer began."""

    def __init__(self, index: str) -> None:
        self.index = index
        self.starts: list[int] = []


@contextmanager
def slow_registry(wheel: Path, *, seconds: float) -> Iterator[Registry]:
    """The wheel takes about `seconds`, its second half after a second request."""
    content = wheel.read_bytes()
    piece = -(-len(content) // PIECES)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.endswith(".whl"):
                link = f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
                self._begin(200, len(link), "text/html")
                self.wfile.write(link)
                return
            start = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
            registry.starts.append(start)
            if start:
                self._begin(206, len(content) - start, "application/zip", start)
            else:
                self._begin(200, len(content), "application/zip")
            end = len(content) if start else len(content) // 2
            with suppress(OSError):  # the client may be killed
                for at in range(start, end, piece):
                    self.wfile.write(content[at : min(end, at + piece)])
                    time.sleep(seconds / PIECES)
            self.close_connection = True

        def _begin(self, status: int, length: int, kind: str, start: int = 0) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(length))
            self.send_header("etag", '"one"')
            if start:
                last = len(content) - 1
                self.send_header("content-range", f"bytes {start}-{last}/{len(content)}")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((ADDRESS, 0), Handler) as http:
        http.daemon_threads = True
        registry = Registry(f"http://{ADDRESS}:{http.server_port}/simple")
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield registry
        finally:
            http.shutdown()
            thread.join()
