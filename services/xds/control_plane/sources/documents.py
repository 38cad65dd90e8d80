"""Consul's JSON as values: routes from KV entries, endpoints from health entries. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from ..kv_document import document_from_kv
from ..routing import Endpoint, Place, Route

ROUTES_PREFIX = "slipway/routes/"
_MAINTENANCE = ("_node_maintenance", "_service_maintenance")


def route_from_kv(entry: Mapping[str, Any]) -> Route:
    """One KV entry. Raises BadDocumentError."""
    return document_from_kv(entry, ROUTES_PREFIX, Route)


def endpoints_from_health(
    entries: Iterable[Mapping[str, Any]], *, before: Iterable[Endpoint] = ()
) -> tuple[Endpoint, ...]:
    """Endpoints from /v1/health/service. Passing is healthy; warning and critical are not.

    A check that has not run yet is critical and has no output: an agent that was just started
    reports this for all its checks. Such an instance keeps its health from `before`, or is
    unhealthy if new. An instance whose address is not an IP is left out: Envoy would reject the
    whole assignment.

    A dead replica stays registered for a while, and a new one may already use its port: of two
    instances at one address and port the healthy one counts. Envoy would keep the first.
    """
    were_healthy = {known.place for known in before if known.healthy}
    found: dict[Place, Endpoint] = {}
    for entry in entries:
        service = entry["Service"]
        address = service.get("Address") or entry["Node"]["Address"]
        if not _is_ip(address):
            continue
        place, failing = (address, int(service["Port"])), _failing(entry["Checks"])
        withdrawn = _in_maintenance(failing)
        has_run = withdrawn or any(check.get("Output") for check in failing)
        healthy = not failing or (not has_run and place in were_healthy)
        if place not in found or (healthy and not found[place].healthy):
            instance = "" if withdrawn else service.get("ID", "")
            found[place] = Endpoint(*place, healthy, *_of_replica(service), instance=instance)
    return tuple(sorted(found.values()))


def _of_replica(service: Mapping[str, Any]) -> tuple[str, int]:
    """Its name (job ID and index of the allocation, which a replica keeps when it restarts
    elsewhere), and the port of its liveness page."""
    meta = service.get("Meta") or {}
    port = str(meta.get("liveness_port", ""))
    return str(meta.get("replica", "")), int(port) if port.isdecimal() else 0


def _failing(checks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [check for check in checks if check["Status"] != "passing"]


def _in_maintenance(failing: Iterable[Mapping[str, Any]]) -> bool:
    """`consul maint` adds such a check to a service or a node; it has no output."""
    return any(check.get("CheckID", "").startswith(_MAINTENANCE) for check in failing)


def _is_ip(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
