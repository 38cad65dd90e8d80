"""The whole program: a real Consul, xds.py as a process, a real Envoy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from support import tools
from support.bootstrap import bootstrap
from support.consul import Consul
from support.fake_replica import FakeReplica
from support.gateway import write_secrets
from support.issued import Certificates
from support.processes import running
from support.waiting import ADDRESS, eventually, free_port

PROGRAM = Path(__file__).parents[2] / "xds.py"
ROUTE = {
    "schema_version": 3,
    "model": "tiny",
    "aliases": ["small"],
    "protocols": ["http", "grpc"],
    "backends": [{"service": "model-tiny-1", "weight": 100}],
    "max_concurrent_requests_per_replica": 64,
    "stream_idle_timeout_s": 120,
    "max_stream_duration_s": 600,
}


@dataclass
class Platform:
    consul: Consul
    url: str
    http_port: int
    session: aiohttp.ClientSession
    control_plane: asyncio.subprocess.Process

    async def status(self) -> dict[str, Any]:
        return await self.ask("/status")

    async def ask(self, path: str) -> dict[str, Any]:
        """A document of the control plane."""
        async with self.session.get(f"http://{ADDRESS}:{self.http_port}{path}") as response:
            return dict(await response.json())

    async def text(self, path: str) -> str:
        """A page of the control plane."""
        async with self.session.get(f"http://{ADDRESS}:{self.http_port}{path}") as response:
            return await response.text()

    async def model(self, name: str = "tiny") -> dict[str, Any]:
        return dict((await self.status())["models"].get(name, {}))

    async def ready(self, model: str = "tiny") -> bool:
        return bool((await self.model(model)).get("ready"))

    async def register(
        self, replica: FakeReplica, /, *, service: str = "model-tiny-1", **meta: str
    ) -> None:
        for suffix, port in (("openai", replica.http_port), ("grpc", replica.grpc_port)):
            name = f"{service}-{suffix}"
            await self.consul.register(name, ADDRESS, port, check="passing", **meta)

    async def endpoints(self) -> dict[int, bool] | None:
        """Port -> healthy of the OpenAI API, once every Envoy acknowledged exactly these."""
        model = await self.model()
        if not model.get("acknowledged"):
            return None
        members = model["backends"][0]["clusters"]["model-tiny-1-openai"]["endpoints"]
        return {member["port"]: member["healthy"] for member in members}

    async def complete(self, model: str = "tiny") -> tuple[int, dict[str, Any]]:
        body = {"model": model}
        async with self.session.post(f"{self.url}/v1/completions", json=body) as response:
            return response.status, await response.json()


@contextlib.asynccontextmanager
async def started(
    folder: Path, agent: Consul, *, last_known: Path | None = None
) -> AsyncIterator[Platform]:
    """`last_known` is the file in which the control plane keeps its view of Consul."""
    ports = {name: free_port() for name in ("listen", "http", "gateway", "metrics")}
    document = bootstrap(ADDRESS, metrics_port=ports["metrics"], xds_port=ports["listen"])
    write_secrets(folder, Certificates(folder / "certificates"))
    (folder / "envoy.json").write_text(json.dumps(document), encoding="utf-8")
    envoy = [tools.find("envoy"), "-c", str(folder / "envoy.json"), "--concurrency", "1"]
    envoy += ["--disable-hot-restart", "-l", "warning"]
    command = [sys.executable, str(PROGRAM), "--consul", agent.url]
    if last_known:
        command += ["--last-known", str(last_known)]
    for flag in ("listen", "http", "gateway"):
        command += [f"--{flag}", f"{ADDRESS}:{ports[flag]}"]
    async with (
        running(*command, log=folder / "xds.log", environment=dict(os.environ)) as program,
        running(*envoy, log=folder / "envoy.log", folder=folder),
        aiohttp.ClientSession() as session,
    ):
        platform = Platform(
            agent,
            f"http://{ADDRESS}:{ports['gateway']}",
            ports["http"],
            session,
            program,
        )
        await eventually(lambda: _connected(platform), "Envoy connects")
        yield platform


async def _connected(platform: Platform) -> bool:
    try:
        return bool((await platform.status())["envoys"])
    except aiohttp.ClientError:
        return False
