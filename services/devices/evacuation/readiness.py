"""Which allocations serve, by the checks of their services in Consul."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Nomad's IDs of services have that of the allocation.
ALLOCATION = re.compile(r"_nomad-(?:group|task)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-")
PASSING = "passing"


def readiness(checks: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether an allocation runs, and all checks of its services pass. One without checks is ready
    once it runs."""
    failing = set()
    for check in checks:
        match = ALLOCATION.match(check["ServiceID"])
        if match and check["Status"] != PASSING:
            failing.add(match[1])
    return lambda allocation: (
        allocation["ClientStatus"] == "running" and allocation["ID"] not in failing
    )
