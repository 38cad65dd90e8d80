"""Prometheus's scrape targets, and instant queries, both with the operator's certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series now."""

    labels: Mapping[str, str]
    value: float


class Prometheus:
    """Instant queries."""

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
        """The result's only number: None if there is no series or its value is not a number.
        Raises httpx.HTTPError."""
        found = self.series(query)
        return None if not found or math.isnan(found[0].value) else found[0].value

    def series(self, query: str) -> list[Series]:
        """Raises httpx.HTTPError."""
        response = self._client.get("/api/v1/query", params={"query": query})
        return [
            Series(labels=found["metric"], value=float(found["value"][1]))
            for found in response.raise_for_status().json()["data"]["result"]
        ]
