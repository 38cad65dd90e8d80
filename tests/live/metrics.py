"""Queries to a platform's Prometheus."""

from __future__ import annotations

from typing import Any

import httpx

from tests.live.environments import Platform
from tests.waiting import HANG_S, until

LOOK_S = 0.5  # Prometheus sends no notification of a scrape


def targets(platform: Platform) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _get(platform, "targets", {"state": "active"})["activeTargets"]
    return found


def values(platform: Platform, query: str) -> list[float]:
    """One value for each series; empty if there is none."""
    return [float(each["value"][1]) for each in _get(platform, "query", {"query": query})["result"]]


def wait_for(platform: Platform, query: str) -> None:
    """Waits until the query has a series."""
    until(lambda: values(platform, query), query, pause_s=LOOK_S)


def _get(platform: Platform, path: str, parameters: dict[str, str]) -> dict[str, Any]:
    url = f"{platform.edge(9090)}/api/v1/{path}"
    answer = httpx.get(url, params=parameters, verify=platform.operator, timeout=HANG_S)
    found: dict[str, Any] = answer.raise_for_status().json()["data"]
    return found
