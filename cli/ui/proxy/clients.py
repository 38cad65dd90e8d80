"""HTTP clients of Nomad, Consul and Prometheus with the operator's certificate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from cli.applied import Applied

CONNECT_TIMEOUT_S = 5.0
# Pages of Nomad and Consul wait for changes: these servers answer after 10 minutes at the latest.
READ_TIMEOUT_S = 660.0


def clients_of(applied: Applied) -> dict[str, httpx.AsyncClient]:
    """By the names of their origins."""
    addresses = {
        "nomad": applied.nomad,
        "consul": applied.consul,
        "prometheus": applied.prometheus,
    }
    return {name: _client(applied, address) for name, address in addresses.items()}


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
