"""Visitors who leave before they are answered."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

from tests.ui.fake_platform import running
from tests.ui.served_page import served_by
from tests.waiting import HANG_S


def test_a_request_that_waits_for_changes_ends_with_its_visitor(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        running(["llama"], tmp_path) as (platform, environment),
    ):
        silent.settimeout(HANG_S)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        platform.applied = dataclasses.replace(platform.applied, nomad=address)
        with served_by(platform, environment) as page, page.visitor("nomad") as visitor:
            lines = (
                "GET /v1/jobs?index=5&wait=10m HTTP/1.1",
                f"Host: {page.origin('nomad').host}",
                f"Cookie: {visitor.headers['Cookie']}",
            )
            with socket.create_connection(("127.0.0.1", page.port)) as leaving:
                leaving.sendall("\r\n".join([*lines, "", ""]).encode())
                connection, _ = silent.accept()
                connection.settimeout(60)
                assert connection.recv(65_536).startswith(b"GET /v1/jobs?index=5")
            with connection:
                assert connection.recv(1) == b""
