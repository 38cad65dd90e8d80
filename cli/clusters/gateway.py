"""The gateway's state: endpoints from Envoy, models from the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from cli.applied import Applied
from cli.errors import WRONG_INPUT, CliError

TIMEOUT_S = 5.0
ACCEPTED_STATUS = (1,)  # versions of schemas/status.schema.json
ACCEPTED_PLACEMENT = (1,)  # and of schemas/placement.schema.json


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
    _check_version(f"{address}/status", status, ACCEPTED_STATUS)
    return status


def placement(applied: Applied, model: str, key: str | None) -> Mapping[str, Any]:
    """How the gateway chooses a replica of a model, and which one gets a key: the document of the
    first control plane that answers. Raises httpx.HTTPError, and CliError if it knows no such model
    or answers in another version."""
    query = urlencode({"model": model} | ({} if key is None else {"key": key}))
    try:
        address, document = _of_the_first(applied, applied.xds, f"/placement?{query}")
    except httpx.HTTPStatusError as error:
        if error.response.status_code != httpx.codes.NOT_FOUND:
            raise
        raise CliError(
            f"the gateway does not say how it chooses a replica of {model}:"
            f" {error.response.text.strip()}",
            fix="slipway status lists the models; a control plane of an earlier version has no"
            " answer until slipway up",
            exit_code=WRONG_INPUT,
        ) from error
    _check_version(f"{address}/placement", document, ACCEPTED_PLACEMENT)
    return document


def _check_version(url: str, document: Mapping[str, Any], accepted: Sequence[int]) -> None:
    version = document.get("schema_version")
    if version not in accepted:
        raise CliError(
            f"{url} answers in schema_version {version}; this command reads"
            f" {' and '.join(map(str, accepted))}",
            fix="use the checkout that brought this environment up, or run slipway up here",
        )


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
                and not health.get("failed_outlier_check", False)
                and not health.get("failed_active_health_check", False),
                active_requests=int(stats.get("rq_active", 0)),
            )
