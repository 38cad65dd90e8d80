"""Replicas behind the proxy of their node, which a gateway reaches over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from support import tools
from support.bootstrap import tls_proxy
from support.gateway import route
from support.processes import running
from support.waiting import eventually

NAME, GATEWAY = "replica.test.slipway", "gateway.test.slipway"
PROXY = "127.0.0.9"  # where the node is; its replica listens on 127.0.0.1
FAR = route("tiny", server_name=NAME)


@contextlib.asynccontextmanager
async def proxy(
    folder: Path,
    certificate: Path,
    *,
    http: int,
    grpc: int,
    liveness: int = 0,
    address: str = PROXY,
    host: Sequence[str] = (),
    change: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The proxy of a replica that listens on these ports of 127.0.0.1, if it does. Without a
    liveness page it answers checks itself, as one of an earlier version.

    `host` begins the command of a program that runs on another host. `change` edits its bootstrap.
    """
    files = tls_proxy(
        address,
        ports={"openai": http, "grpc": grpc} | ({"liveness": liveness} if liveness else {}),
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
