"""The whole program: a real Consul, xds.py as a process, a real Envoy."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support import tools
from support.bootstrap import bootstrap
from support.consul import Consul, consul
from support.fake_replica import FakeReplica
from support.load import load
from support.processes import running
from support.waiting import ADDRESS, eventually, free_port

pytestmark = pytest.mark.binaries

PROGRAM = Path(__file__).parents[2] / "xds.py"
ROUTE = {
    "schema_version": 1,
    "model": "tiny",
    "aliases": ["small"],
    "backends": [{"service": "model-tiny-1", "weight": 100}],
    "max_concurrent_requests_per_replica": 64,
    "stream_idle_timeout_s": 120,
    "max_stream_duration_s": 600,
}


@dataclass
class Platform:
    consul: Consul
    url: str
    http_url: str
    session: aiohttp.ClientSession

    async def status(self) -> dict[str, Any]:
        async with self.session.get(f"{self.http_url}/status") as response:
            return dict(await response.json())

    async def model(self, name: str = "tiny") -> dict[str, Any]:
        return dict((await self.status())["models"].get(name, {}))

    async def ready(self) -> bool:
        return bool((await self.model()).get("ready"))

    async def register(self, replica: FakeReplica, *, check: str = "passing") -> None:
        for door, port in (("openai", replica.http_port), ("grpc", replica.grpc_port)):
            await self.consul.register(f"model-tiny-1-{door}", ADDRESS, port, check=check)

    async def endpoints(self) -> dict[int, bool] | None:
        """Port -> healthy of the OpenAI door, once every Envoy acknowledged exactly these."""
        model = await self.model()
        if not model.get("acknowledged"):
            return None
        members = model["backends"][0]["clusters"]["model-tiny-1-openai"]["endpoints"]
        return {member["port"]: member["healthy"] for member in members}

    async def complete(self) -> tuple[int, dict[str, Any]]:
        body = {"model": "tiny"}
        async with self.session.post(f"{self.url}/v1/completions", json=body) as response:
            return response.status, await response.json()


@contextlib.asynccontextmanager
async def started(folder: Path, agent: Consul) -> AsyncIterator[Platform]:
    ports = {name: free_port() for name in ("listen", "http", "gateway", "admin")}
    document = bootstrap(ADDRESS, admin_port=ports["admin"], xds_port=ports["listen"])
    (folder / "envoy.json").write_text(json.dumps(document), encoding="utf-8")
    envoy = [tools.find("envoy"), "-c", str(folder / "envoy.json"), "--concurrency", "1"]
    command = [sys.executable, str(PROGRAM), "--consul", agent.url]
    for flag in ("listen", "http", "gateway"):
        command += [f"--{flag}", f"{ADDRESS}:{ports[flag]}"]
    async with (
        running(*command, log=folder / "xds.log", environment=dict(os.environ)),
        running(*envoy, "--disable-hot-restart", "-l", "warning", log=folder / "envoy.log"),
        aiohttp.ClientSession() as session,
    ):
        platform = Platform(
            agent,
            f"http://{ADDRESS}:{ports['gateway']}",
            f"http://{ADDRESS}:{ports['http']}",
            session,
        )
        await eventually(lambda: _connected(platform), "Envoy connects", within_s=20)
        yield platform


async def _connected(platform: Platform) -> bool:
    try:
        return bool((await platform.status())["envoys"])
    except aiohttp.ClientError:
        return False


async def test_from_registration_to_deregistration(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    """A model appears, a replica fails and recovers, another comes, one leaves, the model goes."""
    async with consul(tmp_path) as agent, started(tmp_path, agent) as platform:
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")
        assert await platform.complete() == (200, {"marker": "blue", "model": "tiny"})

        await agent.set_check(blue.http_port, "critical")
        await _endpoints_are(platform, {blue.http_port: False})
        assert (await platform.complete())[0] == 503
        assert not await platform.ready()

        await agent.set_check(blue.http_port, "warning")
        await agent.set_check(blue.http_port, "passing")
        await platform.register(green)
        await _endpoints_are(platform, {blue.http_port: True, green.http_port: True})

        await agent.deregister("model-tiny-1-openai", blue.http_port)
        await _endpoints_are(platform, {green.http_port: True})
        assert await platform.complete() == (200, {"marker": "green", "model": "tiny"})

        await agent.delete_route("tiny")
        await eventually(lambda: _serves(platform, []), "the model is gone")
        assert (await platform.complete())[0] == 404


async def test_a_bad_document_keeps_the_models_last_good_route(
    tmp_path: Path, blue: FakeReplica
) -> None:
    async with consul(tmp_path) as agent, started(tmp_path, agent) as platform:
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")

        await agent.put_route({**ROUTE, "backends": []})
        await eventually(lambda: _refused(platform, "tiny"), "the document is refused")

        assert "backends" in (await platform.status())["refused_routes"]["tiny"]
        assert (await platform.complete())[0] == 200
        await agent.put_route(ROUTE)
        await eventually(lambda: _refused(platform), "nothing is refused any more")


async def test_an_outage_of_consul_and_the_loss_of_its_state_change_nothing(
    tmp_path: Path, blue: FakeReplica, green: FakeReplica
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        agent = await first.enter_async_context(consul(tmp_path))
        platform = await stack.enter_async_context(started(tmp_path, agent))
        await platform.register(blue)
        await agent.put_route(ROUTE)
        await eventually(platform.ready, "the model is ready")

        async with load(platform.url, "tiny") as outcomes:
            await first.aclose()
            await eventually(lambda: _stale(platform), "the outage is noticed")
            again = consul(tmp_path, http_port=int(agent.url.rsplit(":", 1)[1]))
            platform.consul = await stack.enter_async_context(again)
            await eventually(lambda: _fresh(platform), "Consul is back, empty")
        assert set(outcomes) == {"blue"}

        await platform.consul.put_route(ROUTE)
        await platform.register(green)
        await _endpoints_are(platform, {green.http_port: True})


async def _endpoints_are(platform: Platform, expected: dict[int, bool]) -> None:
    async def same() -> bool:
        return await platform.endpoints() == expected

    await eventually(same, f"Envoy has acknowledged {expected}")


async def _serves(platform: Platform, models: list[str]) -> bool:
    async with platform.session.get(f"{platform.url}/v1/models") as response:
        return [entry["id"] for entry in (await response.json())["data"]] == models


async def _refused(platform: Platform, *models: str) -> bool:
    return sorted((await platform.status())["refused_routes"]) == sorted(models)


async def _stale(platform: Platform) -> bool:
    return float((await platform.status())["consul"]["stale_s"]) > 0.3


async def _fresh(platform: Platform) -> bool:
    return float((await platform.status())["consul"]["stale_s"]) == 0
