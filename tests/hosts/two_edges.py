"""An environment of hosts whose two Envoys share an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.hosts.bed import NETWORK
from tests.hosts.environment import listed

SERVERS = {"server-0": f"{NETWORK}.11"}
WORKERS = {"worker-0": f"{NETWORK}.21"}
EDGES = {"edge-0": f"{NETWORK}.31", "edge-1": f"{NETWORK}.32"}
ADDRESSES = {**SERVERS, **WORKERS, **EDGES}
SHARED = f"{NETWORK}.30"  # the address that clients use
SETTINGS: Mapping[str, Any] = {
    "server_hosts": listed(SERVERS),
    "pools": {
        "cpu": {"kind": "metal", "hosts": listed(WORKERS), "memory": "16GiB", "cpu": 8},
        "edge": {"kind": "metal", "hosts": listed(EDGES), "memory": "4GiB", "cpu": 2},
    },
    "gateway": {"pool": "edge", "address": SHARED},
}
