"""A small checkout, and local servers whose answers a test defines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import environment as environment_module
from cli.environment import Environment
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.checkouts import Copied, Edit, make_copy, replace_text, restore

Reply = bytes | dict[str, Any] | list[Any]


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout that commands work on: one environment, dev, never brought up."""
    root = tmp_path / "a checkout"
    (root / "services" / "host").mkdir(parents=True)
    (root / "services" / "host" / "requirements.txt").write_text("supervisor==4.3.0\n")
    (root / "requirements.txt").write_text("")
    (root / "stacks" / "targets").mkdir(parents=True)
    (root / "stacks" / "targets" / "dev.py").touch()
    (root / "Pulumi.dev.yaml").write_text("config: {slipway:target: dev}\n")
    monkeypatch.setattr(environment_module, "CHECKOUT", root)
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path / "cache"))
    return root


@pytest.fixture(scope="session")
def copied_checkout(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    return make_copy(tmp_path_factory.mktemp("copied") / "checkout")


@pytest.fixture
def whole_checkout(copied_checkout: Copied) -> Iterator[Path]:
    """A copy of this checkout, for tests of the real command: each finds it as it was."""
    yield copied_checkout.folder
    restore(copied_checkout)


@pytest.fixture
def copied(whole_checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands of this process work on the copy."""
    monkeypatch.setattr(environment_module, "CHECKOUT", whole_checkout)
    monkeypatch.setenv("SLIPWAY_CACHE", str(whole_checkout.parent / "cache"))
    return whole_checkout


@pytest.fixture
def edit(whole_checkout: Path) -> Edit:
    """`edit(file, old, new)` replaces a text that must exist; returns its line."""
    return lambda file, old, new: replace_text(whole_checkout / file, old, new)


@pytest.fixture
def environment(checkout: Path, tmp_path: Path) -> Iterator[Environment]:
    dev = Environment(name="dev", checkout=checkout, cache=tmp_path / "cache")
    yield dev
    shutil.rmtree(dev.scratch, ignore_errors=True)  # the only folder outside tmp_path


class Server:
    """The requests (`METHOD path?query`), in order, and the headers of the last one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.bodies: list[bytes] = []


@contextmanager
def serving(address: str, port: int, replies: dict[str, tuple[int, Reply]]) -> Iterator[Server]:
    """Answers each `METHOD /path` with (status, JSON or raw body); else 404."""
    server = Server(f"http://{address}:{port}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(f"{self.command} {self.path}")
            server.headers = dict(self.headers)
            server.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
            path = self.path.partition("?")[0]
            status, reply = replies.get(f"{self.command} {path}", (404, b"nothing here"))
            body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  (the names that http.server looks for)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, port), Handler) as http:
        server.address = f"http://{address}:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve({"GET /path": (200, …)}, address=ADDRESS)` until the test ends."""
    with ExitStack() as servers:

        def start(
            replies: dict[str, tuple[int, Reply]], address: str = f"{NETWORK}.1", port: int = 0
        ) -> Server:
            return servers.enter_context(serving(address, port, replies))

        yield start


@pytest.fixture
def python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets programs that a test starts import what the test can."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


@pytest.fixture
def in_new_python(python_path: None) -> Callable[[str], str]:
    """Runs a program in an interpreter that has loaded nothing yet. It must end with 0; returns
    what it prints."""

    def run(program: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
