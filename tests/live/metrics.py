"""Queries to a platform's Prometheus."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tests.live.environments import Platform

LOOK_S = 0.5


def targets(platform: Platform) -> list[dict[str, Any]]:
    answer = httpx.get(f"{_address(platform)}/targets", params={"state": "active"})
    found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["activeTargets"]
    return found


def values(platform: Platform, query: str) -> list[float]:
    """One value for each series; empty if there is none."""
    answer = httpx.get(f"{_address(platform)}/query", params={"query": query})
    return [float(each["value"][1]) for each in answer.raise_for_status().json()["data"]["result"]]


def wait_for(platform: Platform, query: str, *, timeout_s: float) -> None:
    """Waits until the query has a series. AssertionError if it has none in time."""
    deadline_s = time.monotonic() + timeout_s
    while not values(platform, query):
        assert time.monotonic() < deadline_s, f"Prometheus has nothing for {query}"
        time.sleep(LOOK_S)  # Prometheus sends no notification of a scrape


def _address(platform: Platform) -> str:
    return f"{platform.http.rpartition(':')[0]}:9090/api/v1"
