"""Reports of hosts, and pools, as the programs of the service have them."""

from __future__ import annotations

import json
from typing import Any

from fabric.pool import Pool

from catalog import thresholds

UP = "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP\n"
DOWN = "2: eth0: <BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN\n"
ABSENT = 'Device "eth9" does not exist.\n'


def pool(**changes: Any) -> Pool:
    made: dict[str, Any] = {
        "name": "cpu",
        "job": "fabric-check-cpu",
        "planned": {"kind": "tcp"},
        "thresholds": thresholds("tcp"),
        "gaps_admit": True,
        "measures": False,
    }
    return Pool(**{**made, **changes})


def report(*, link: str = UP, pairs: tuple[Any, ...] = (), **changes: Any) -> dict[str, Any]:
    made = {
        "schema_version": 1,
        "key": "a",
        "at": "2026-11-29T09:00:00.000+00:00",
        "interface": "eth0",
        "address": "10.0.0.1",
        "port": 20000,
        "devices": [],
        "request": "",
        "outputs": [{"tool": "ip_link", "text": link, "exit_code": 0}],
        "pairs": list(pairs),
    }
    return {**made, **changes}


def pair(peer: str, gbit_per_s: float, minute: int = 1) -> dict[str, Any]:
    """A measurement with another host; healthy in all but perhaps the rate."""
    figures = {
        "streams": 4,
        "seconds": 3.0,
        "gbit_per_s": gbit_per_s,
        "received_gbit_per_s": gbit_per_s,
        "round_trip_median_us": 40.0,
        "round_trip_p99_us": 90.0,
        "retransmits": 0,
    }
    output = {"tool": "tcp_check", "text": json.dumps(figures), "exit_code": 0}
    at = f"2026-11-29T09:{minute:02d}:00.000+00:00"
    return {"peer": peer, "peer_key": "a", "at": at, "outputs": [output]}
