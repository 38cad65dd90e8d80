"""The gateway's state: endpoints from Envoy, models from the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from cli.applied import Applied
from cli.errors import CliError

TIMEOUT_S = 5.0
ACCEPTED_STATUS = (1,)  # versions of schemas/status.schema.json


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One member of one of Envoy's clusters."""

    cluster: str
    address: str
    healthy: bool
    active_requests: int


def endpoints(applied: Applied) -> list[Endpoint]:
    """Endpoints as the first Envoy that answers sees them. Raises httpx.HTTPError."""
    _, document = _of_the_first(applied, applied.envoy_metrics, "/clusters?format=json")
    return list(_endpoints(document))


def control_plane(applied: Applied) -> Mapping[str, Any]:
    """The /status document of the first control plane that answers. Raises httpx.HTTPError, and
    CliError for a version that this command does not read."""
    address, status = _of_the_first(applied, applied.xds, "/status")
    version = status.get("schema_version")
    if version not in ACCEPTED_STATUS:
        raise CliError(
            f"{address}/status answers in schema_version {version}; this command reads"
            f" {' and '.join(map(str, ACCEPTED_STATUS))}",
            fix="use the checkout that brought this environment up, or run slipway up here",
        )
    return status


def _of_the_first(
    applied: Applied, addresses: Sequence[str], path: str
) -> tuple[str, Mapping[str, Any]]:
    """The first address that answers, because an edge host may be dead, and what it answers.
    Raises httpx.HTTPError of the last one."""
    *others, last = addresses
    for address in others:
        with suppress(httpx.HTTPError):
            return address, _answer(applied, address, path)
    return last, _answer(applied, last, path)


def _answer(applied: Applied, address: str, path: str) -> Mapping[str, Any]:
    response = httpx.get(
        f"{address}{path}", timeout=TIMEOUT_S, trust_env=False, verify=applied.verified(address)
    )
    document: Mapping[str, Any] = response.raise_for_status().json()
    return document


def _endpoints(document: Mapping[str, Any]) -> Iterator[Endpoint]:
    for cluster in document.get("cluster_statuses", []):
        for host in cluster.get("host_statuses", []):
            socket = host["address"].get("socket_address")
            if socket is None:  # Envoy's own admin interface
                continue
            health = host.get("health_status", {})
            stats = {stat.get("name"): stat.get("value", 0) for stat in host.get("stats", [])}
            yield Endpoint(
                cluster=cluster["name"],
                address=f"{socket['address']}:{socket['port_value']}",
                healthy=health.get("eds_health_status") == "HEALTHY"
                and not health.get("failed_outlier_check", False),
                active_requests=int(stats.get("rq_active", 0)),
            )
