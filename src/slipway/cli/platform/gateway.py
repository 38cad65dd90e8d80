"""The gateway's state: endpoints from Envoy, models from the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from slipway.cli.applied import Applied
from slipway.cli.errors import CliError

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
    """Endpoints as Envoy sees them. Raises httpx.HTTPError."""
    response = httpx.get(
        f"{applied.envoy_metrics}/clusters",
        params={"format": "json"},
        timeout=TIMEOUT_S,
        trust_env=False,
        verify=applied.verified(applied.envoy_metrics),
    )
    return list(_endpoints(response.raise_for_status().json()))


def control_plane(applied: Applied) -> Mapping[str, Any]:
    """The control plane's /status document. Raises httpx.HTTPError, and CliError for a version that
    this command does not read."""
    response = httpx.get(
        f"{applied.xds}/status",
        timeout=TIMEOUT_S,
        trust_env=False,
        verify=applied.verified(applied.xds),
    )
    status: Mapping[str, Any] = response.raise_for_status().json()
    version = status.get("schema_version")
    if version not in ACCEPTED_STATUS:
        raise CliError(
            f"{applied.xds}/status answers in schema_version {version}; this command reads"
            f" {' and '.join(map(str, ACCEPTED_STATUS))}",
            fix="use the checkout that brought this environment up, or run slipway up here",
        )
    return status


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
