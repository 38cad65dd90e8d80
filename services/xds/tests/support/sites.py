"""A gateway, and two replicas that it may use on hosts of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from control_plane.routing import Endpoint

from support.fake_replica import FakeReplica
from support.gateway import Gateway, gateway
from support.issued import Certificates
from support.proxies import FAR, NAME, proxy
from support.remote_hosts import RemoteHost, remote_hosts
from support.waiting import eventually

OPENAI, TRITON = "model-tiny-1-openai", "model-tiny-1-grpc"


@dataclass(frozen=True)
class Hosted:
    """A replica on a host of its own, behind its proxy."""

    host: RemoteHost
    replica: FakeReplica
    proxy: asyncio.subprocess.Process

    def endpoint(self, cluster: str, *, healthy: bool = True) -> Endpoint:
        port = self.replica.http_port if cluster == OPENAI else self.replica.grpc_port
        return Endpoint(self.host.address, port, healthy)


@dataclass(frozen=True)
class Site:
    """A gateway and two replicas that it may use."""

    gateway: Gateway
    blue: Hosted
    green: Hosted

    @property
    def url(self) -> str:
        return f"{self.gateway.url}/v1/completions"

    async def use(self, *used: Hosted, known: tuple[Hosted, ...] = ()) -> None:
        """Those that are known and not used are unhealthy, as Consul would say."""
        members = {
            cluster: tuple(each.endpoint(cluster, healthy=each in used) for each in {*used, *known})
            for cluster in (OPENAI, TRITON)
        }
        await self.gateway.apply_table((FAR,), members)

    async def has(self, healthy: int) -> bool:
        """Whether both clusters have so many replicas that may be used."""
        counts = [
            await self.gateway.stat(f"cluster.{cluster}.membership_healthy")
            for cluster in (OPENAI, TRITON)
        ]
        return counts == [healthy, healthy]

    async def stat(self, name: str) -> int:
        return await self.gateway.stat(f"cluster.{OPENAI}.{name}") or 0

    async def stat_is(self, name: str, value: int) -> bool:
        return await self.stat(name) == value

    async def passed(self, checks: int) -> bool:
        return await self.stat("health_check.success") >= checks

    async def asked(self, side: Hosted) -> int:
        """How many requests the gateway has sent to a host, of both protocols."""
        clusters = json.loads(await self.gateway.admin("/clusters?format=json"))
        return sum(
            int(stat.get("value", 0))
            for cluster in clusters["cluster_statuses"]
            if cluster["name"] in (OPENAI, TRITON)
            for host in cluster["host_statuses"]
            if host["address"]["socket_address"]["address"] == side.host.address
            for stat in host["stats"]
            if stat["name"] == "rq_total"
        )


@contextlib.asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    """Both replicas are in use."""
    issued = Certificates(folder / "certificates")
    async with (
        remote_hosts(2) as (first, second),
        hosted(folder, issued, first, "blue") as blue,
        hosted(folder, issued, second, "green") as green,
        gateway(folder, certificates=issued) as started,
    ):
        site = Site(started, blue, green)
        await site.use(blue, green)
        await eventually(lambda: site.has(2), "both are checked")
        yield site


@contextlib.asynccontextmanager
async def hosted(
    folder: Path, issued: Certificates, host: RemoteHost, marker: str
) -> AsyncIterator[Hosted]:
    certificate = issued.issue(marker, NAME, host.address)
    async with (
        FakeReplica(marker, address="127.0.0.1") as replica,
        host.forwards(replica.http_port),
        host.forwards(replica.grpc_port),
        proxy(
            folder / marker,
            certificate,
            http=replica.http_port,
            grpc=replica.grpc_port,
            address=host.address,
            host=host.command(),
        ) as process,
    ):
        yield Hosted(host, replica, process)


def begun(site: Site) -> int:
    """Requests of the OpenAI API that the replicas have got."""
    return sum(len(each.replica.requests) for each in (site.blue, site.green))


async def streamed(client: aiohttp.ClientSession, url: str) -> str:
    async with client.post(url, json={"model": "tiny", "stream": True}) as response:
        try:
            return " ".join((await response.text()).split())
        except aiohttp.ClientPayloadError:
            return "cut off"


async def whole(client: aiohttp.ClientSession, url: str) -> str:
    body = {"model": "tiny", "held": True}
    async with client.post(url, json=body) as response:
        answer = await response.json()
        return f"{response.status} {answer.get('marker') or answer['error']['code']}"
