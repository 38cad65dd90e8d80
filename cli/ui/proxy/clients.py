"""HTTP clients of Nomad, Consul and Prometheus with the operator's certificate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from cli.applied import Applied
from cli.certificates import AUTHORITY, CERTIFICATE, KEY

CONNECT_TIMEOUT_S = 5.0
# Pages of Nomad and Consul wait for changes: these servers answer after 10 minutes at the latest.
READ_TIMEOUT_S = 660.0


class Clients:
    """One for each upstream; another one once an `up` has changed its address or the certificate.
    Answers that are on their way keep the client they began with."""

    def __init__(self, applied: Callable[[], Applied]) -> None:
        self._applied = applied
        self._newest: dict[str, tuple[object, httpx.AsyncClient]] = {}
        self._all: list[httpx.AsyncClient] = []

    def of(self, upstream: str) -> httpx.AsyncClient:
        """Raises CliError for a plan that this command cannot read, OSError for such a
        certificate."""
        applied = self._applied()
        address = {
            "nomad": applied.nomad,
            "consul": applied.consul,
            "prometheus": applied.prometheus,
        }[upstream]
        made_of = address, applied.server_names.get(address), _written(applied.operator)
        known = self._newest.get(upstream)
        if known is not None and known[0] == made_of:
            return known[1]
        client = _client(applied, address)
        self._newest[upstream] = made_of, client
        self._all.append(client)
        return client

    async def close(self) -> None:
        for client in self._all:
            await client.aclose()


def _written(operator: Path) -> list[tuple[str, int]]:
    """When each file of the operator's certificate was written (ns, Unix time)."""
    files = (operator / name for name in (AUTHORITY, CERTIFICATE, KEY))
    return [(str(file), file.stat().st_mtime_ns) for file in files if file.is_file()]


def _client(applied: Applied, address: str) -> httpx.AsyncClient:
    name = applied.server_names.get(address)
    return httpx.AsyncClient(
        base_url=address,
        timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx.Limits(max_connections=None),  # many wait for changes
        trust_env=False,
        verify=applied.verified(address),
        event_hooks={"request": [_by_name(name)]} if name else {},
    )


def _by_name(server_name: str) -> Callable[[httpx.Request], Awaitable[None]]:
    """Servers behind a forwarded address are verified by this name. The context of
    `Applied.verified` says so to blocking clients only: asyncio has its own way to TLS."""

    async def named(request: httpx.Request) -> None:
        request.extensions = {**request.extensions, "sni_hostname": server_name}

    return named
