"""What Prometheus scrapes."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    service: str
    address: str
    up: bool
    error: str


def targets(prometheus: str) -> list[Target]:
    """Active targets, by service and address. Raises httpx.HTTPError."""
    response = httpx.get(
        f"{prometheus}/api/v1/targets",
        params={"state": "active"},
        timeout=TIMEOUT_S,
        trust_env=False,
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
