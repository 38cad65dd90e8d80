"""Prometheus's scrape targets, and instant queries, both with the operator's certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import httpx

from cli.applied import Applied

TARGETS_TIMEOUT_S = 5.0
QUERY_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    service: str
    address: str
    up: bool
    error: str


def targets(applied: Applied) -> list[Target]:
    """Active targets, by service and address. Raises httpx.HTTPError."""
    response = httpx.get(
        f"{applied.prometheus}/api/v1/targets",
        params={"state": "active"},
        timeout=TARGETS_TIMEOUT_S,
        trust_env=False,
        verify=applied.verified(applied.prometheus),
    )
    found = [
        Target(
            service=target["labels"].get("service", target["labels"].get("job", "")),
            address=target["scrapeUrl"],
            up=target["health"] == "up",
            error=target.get("lastError", ""),
        )
        for target in response.raise_for_status().json()["data"]["activeTargets"]
    ]
    return sorted(found, key=lambda target: (target.service, target.address))


class Prometheus:
    """Instant queries with one number as the result."""

    def __init__(self, applied: Applied) -> None:
        self._client = httpx.Client(
            base_url=applied.prometheus,
            timeout=QUERY_TIMEOUT_S,
            trust_env=False,
            verify=applied.verified(applied.prometheus),
        )

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def number(self, query: str) -> float | None:
        """None if there is no series or its value is not a number. Raises httpx.HTTPError."""
        response = self._client.get("/api/v1/query", params={"query": query})
        found = response.raise_for_status().json()["data"]["result"]
        value = float(found[0]["value"][1]) if found else math.nan
        return None if math.isnan(value) else value
