"""Replicas behind the proxy of their node, which a gateway reaches over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from support import tools
from support.bootstrap import certificates, gateway_secrets, tls_proxy
from support.gateway import route
from support.processes import running
from support.waiting import eventually

NAME, GATEWAY = "replica.test.slipway", "gateway.test.slipway"
PROXY = "127.0.0.9"  # where the node is; its replica listens on 127.0.0.1
FAR = route("tiny", server_name=NAME)


class Certificates:
    """The files of certificates of one authority, in folders by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates()

    def issue(self, name: str, dns_name: str = "", address: str = "", **options: Any) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        files = self.authority.issue(
            name, [dns_name] if dns_name else [], [address] if address else [], **options
        )
        for file, content in files.items():  # as services/node replaces them
            (folder / f".{file}").write_text(content, encoding="utf-8")
            (folder / f".{file}").replace(folder / file)
        return folder


def give_certificate(gateway: Path, certificate: Path) -> None:
    """Where a gateway that starts in this folder finds its certificate."""
    (gateway / "local").mkdir()
    for path, content in gateway_secrets(certificate).items():
        (gateway / path).write_text(content, encoding="utf-8")


@contextlib.asynccontextmanager
async def proxy(
    folder: Path,
    certificate: Path,
    *,
    http: int,
    grpc: int,
    address: str = PROXY,
    host: Sequence[str] = (),
    change: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The proxy of a replica that listens on these ports of 127.0.0.1, if it does.

    `host` begins the command of a program that runs on another host. `change` edits its bootstrap.
    """
    files = tls_proxy(
        address,
        ports={"openai": http, "grpc": grpc},
        certificate=certificate,
        name=NAME,
        clients=[GATEWAY],
    )
    if change:
        document = json.loads(files["local/envoy.json"])
        change(document)
        files["local/envoy.json"] = json.dumps(document)
    (folder / "local").mkdir(parents=True)
    for path, content in files.items():
        (folder / path).write_text(content, encoding="utf-8")
    command = [tools.find("envoy"), "--config-path", "local/envoy.json", "--concurrency", "1"]
    command += ["--disable-hot-restart", "--log-level", "warning"]
    async with running(*host, *command, log=folder / "envoy.log", folder=folder) as process:
        await eventually(lambda: _listens(address, http), "the proxy listens")
        yield process


async def _listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True
