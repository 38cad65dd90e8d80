"""What a host is asked to do, and where it says what it found.

Both are kept by Nomad: a request in the metadata of the host's node, a report in a file of the
allocation that checks the host (schemas/fabric-host.schema.json).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

REQUEST = "unique.fabric.request"
REPORT = "fabric.json"  # in the allocation's shared folder

CHECK, LISTEN, MEASURE = "check", "listen", "measure"


@dataclass(frozen=True)
class Request:
    """`until` is when it is void, in seconds since 1970. `peer` is the other host of a measurement,
    at `address` of its own, and `peer_key` the key of its report; `port` is where the one that
    listens does."""

    id: str
    role: str
    until: float
    peer: str = ""
    address: str = ""
    port: int = 0
    peer_key: str = ""


def write_request(request: Request) -> str:
    return json.dumps(asdict(request), sort_keys=True)


def read_request(metadata: Mapping[str, str]) -> Request | None:
    """None without one, and for one that this version does not understand."""
    try:
        return Request(**json.loads(metadata.get(REQUEST) or ""))
    except (ValueError, TypeError):
        return None
