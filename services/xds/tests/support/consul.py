"""A real Consul agent in development mode, and the few calls tests make to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from support import tools
from support.processes import running
from support.waiting import eventually, free_port

CONSUL_ADDRESS = "127.94.0.3"


class Consul:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.url = url
        self._session = session

    async def put_route(self, document: dict[str, Any]) -> None:
        await self._put(f"/v1/kv/slipway/routes/{document['model']}", json.dumps(document).encode())

    async def delete_route(self, model: str) -> None:
        async with self._session.delete(f"{self.url}/v1/kv/slipway/routes/{model}") as response:
            response.raise_for_status()

    async def register(
        self, service: str, address: str, port: int, *, check: str, **meta: str
    ) -> None:
        """One instance with a check that `set_check` sets; `check` is its first status."""
        document = {
            "ID": f"{service}-{port}",
            "Name": service,
            "Address": address,
            "Port": port,
            "Meta": meta,
            "Check": {"CheckID": f"check-{port}", "TTL": "1h", "Status": check},
        }
        await self._put("/v1/agent/service/register", json.dumps(document).encode())

    async def set_check(self, port: int, status: str) -> None:
        document = json.dumps({"Status": status, "Output": "as told"}).encode()
        await self._put(f"/v1/agent/check/update/check-{port}", document)

    async def maintenance(self, service: str, port: int) -> None:
        """As `consul maint -enable` on one instance."""
        await self._put(f"/v1/agent/service/maintenance/{service}-{port}?enable=true", b"")

    async def deregister(self, service: str, port: int) -> None:
        await self._put(f"/v1/agent/service/deregister/{service}-{port}", b"")

    async def has_leader(self) -> bool:
        try:
            async with self._session.get(f"{self.url}/v1/status/leader") as response:
                return bool(await response.json())
        except (aiohttp.ClientError, ValueError):
            return False

    async def has_nodes(self) -> bool:
        """Whether the agent's own node is registered: before it nobody can have a session."""
        async with self._session.get(f"{self.url}/v1/catalog/nodes") as response:
            return response.ok and bool(await response.json())

    async def _put(self, path: str, body: bytes) -> None:
        async with self._session.put(self.url + path, data=body) as response:
            response.raise_for_status()


@contextlib.asynccontextmanager
async def consul(folder: Path, *, http_port: int | None = None) -> AsyncIterator[Consul]:
    """An empty Consul with a leader. It keeps nothing: started again, it has lost everything."""
    ports = {name: free_port() for name in ("server", "serf_lan")}
    ports |= {"http": http_port or free_port(), "dns": -1, "grpc": -1, "grpc_tls": -1}
    ports["serf_wan"] = -1
    config = folder / "consul.json"
    config.write_text(json.dumps({"ports": ports}), encoding="utf-8")
    command = [tools.find("consul"), "agent", "-dev", "-log-level=warn"]
    command += [f"-bind={CONSUL_ADDRESS}", f"-client={CONSUL_ADDRESS}", f"-config-file={config}"]
    async with (
        running(*command, log=folder / "consul.log"),
        aiohttp.ClientSession() as session,
    ):
        agent = Consul(session, f"http://{CONSUL_ADDRESS}:{ports['http']}")
        await eventually(agent.has_leader, "Consul has a leader")
        await eventually(agent.has_nodes, "Consul knows its own node")
        yield agent
