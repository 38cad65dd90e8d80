from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from toolchain import download
from toolchain.environments import find_uv
from toolchain.progress import Step, silent
from toolchain.settings import default_cache


@dataclass
class ArchiveServer:
    """Serves `files` by name. A name in `cut` breaks off in the middle that many times; one in
    `busy` is answered with these statuses first; one in `stated` with this content-length, or
    without any, and in chunks.

    `credentials` are those ("user:password") that came with the requests.
    """

    base: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    busy: dict[str, list[int]] = field(default_factory=dict)
    stated: dict[str, int | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


@pytest.fixture(autouse=True)
def _retried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_RETRY_S", 0.01)


@pytest.fixture
def archive_server() -> Iterator[ArchiveServer]:
    server = ArchiveServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            server.asked.append(name)
            kind, _, encoded = self.headers.get("authorization", "").partition(" ")
            if kind == "Basic":
                server.credentials.append(base64.b64decode(encoded).decode())
            if name not in server.files:
                self.send_error(404)
                return
            if server.busy.get(name):
                self.send_error(server.busy[name].pop(0))
                return
            content = server.files[name]
            stated = server.stated.get(name, len(content))
            self.send_response(200)
            if stated is not None:
                self.send_header("content-length", str(stated))
            if name in server.stated:
                self.send_header("transfer-encoding", "chunked")
                content = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
            self.end_headers()
            if server.cut.get(name, 0) > 0:
                server.cut[name] -= 1
                content = content[: len(content) // 2]
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.90.0.1", 0), Handler)
    server.base = f"http://127.90.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture(scope="session")
def uv_folder() -> Path:
    """The folder of the pinned uv; the first test run on a machine fetches it."""
    return find_uv(default_cache(), Step("uv", silent)).parent


@pytest.fixture
def with_uv(uv_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{uv_folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("UV_OFFLINE", "1")
