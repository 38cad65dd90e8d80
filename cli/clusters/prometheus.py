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

    def timeline(
        self, query: str, *, start_s: int, end_s: int, step_s: int
    ) -> dict[int, float | None]:
        """The result's only series: a value for each step from `start_s` to `end_s` (Unix times);
        None where it has none. Raises httpx.HTTPError."""
        parameters: dict[str, str | int] = {
            "query": query,
            "start": start_s,
            "end": end_s,
            "step": step_s,
        }
        response = self._client.get("/api/v1/query_range", params=parameters).raise_for_status()
        found = response.json()["data"]["result"]
        values = {int(at): float(value) for at, value in found[0]["values"]} if found else {}
        return {at: _number(values.get(at)) for at in range(start_s, end_s + 1, step_s)}

    def series(self, query: str) -> list[Series]:
        """Raises httpx.HTTPError."""
        response = self._client.get("/api/v1/query", params={"query": query})
        return [
            Series(labels=found["metric"], value=float(found["value"][1]))
            for found in response.raise_for_status().json()["data"]["result"]
        ]


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
