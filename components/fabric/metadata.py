"""What Nomad's metadata of a node says of its host's fabric, and what the host is asked to do: as
services/fabric has it (fabric/requests.py, admission/verdicts.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERDICT, MEMBERS, DETAILS = "fabric", "fabric_members", "unique.fabric.report"
REQUEST = "unique.fabric.request"
PASSED, FAILED, GAP = "passed", "failed", "gap"
YES = "yes"
# As a filter of Nomad's nodes. Those of pools without groups have none of it.
NOT_PASSED = f'Meta.{VERDICT} == "{FAILED}" or Meta.{VERDICT} == "{GAP}"'
CHECK, LISTEN, MEASURE = "check", "listen", "measure"
HOST_REPORT = "alloc/fabric.json"  # in the allocation that checks the host


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFabric:
    """The verdict on a host. Reason, figure and threshold are those of what decided: empty and None
    where it passed. `peer` is the other host of a measurement; `request` is the last one that the
    host answered."""

    verdict: str
    takes_members: bool
    reason: str
    fix: str
    peer: str
    figure: float | None
    threshold: float | None
    unit: str
    request: str


def read_fabric(metadata: Mapping[str, str]) -> HostFabric | None:
    """None for a host that nobody has judged."""
    try:
        details: dict[str, Any] = json.loads(metadata[DETAILS])
        return HostFabric(
            verdict=metadata[VERDICT],
            takes_members=metadata[MEMBERS] == YES,
            **{name: details[name] for name in HostFabric.__annotations__ if name in details},
        )
    except (KeyError, ValueError, TypeError):
        return None


def pool_report(pool: str) -> str:
    """The findings on all hosts of the pool, in the allocation of the job that judges."""
    return f"alloc/fabric-{pool}.json"
