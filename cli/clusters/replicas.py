"""What Nomad says of the replicas that run: their jobs, and the accelerators that they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A model's replicas: the IDs of their jobs, of which a change has two for a while, and the
    UUIDs of their accelerators."""

    jobs: tuple[str, ...] = ()
    devices: frozenset[str] = frozenset()


def running(allocations: Iterable[Mapping[str, Any]], model: str) -> Running:
    """`allocations` are Nomad's, with their resources. A model's jobs are named after it and the
    digest of their spec."""
    own = [
        each
        for each in allocations
        if each["ClientStatus"] == "running"
        and each["JobID"].rpartition("-")[0] == f"model-{model}"
    ]
    return Running(
        jobs=tuple(sorted({each["JobID"] for each in own})),
        devices=frozenset(uuid for each in own for uuid in _devices(each)),
    )


def _devices(allocation: Mapping[str, Any]) -> Iterator[str]:
    resources = allocation.get("AllocatedResources") or {}
    for task in (resources.get("Tasks") or {}).values():
        for group in task.get("Devices") or ():
            yield from group["DeviceIDs"]
