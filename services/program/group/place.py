"""A member's place: which group of a job, and which rank in it. Pure.

A job says in its metadata how many allocations one replica has (components/serving/nomad_job.py).
Nomad numbers the allocations of a job from 0 and gives a replacement the number of the one that it
replaces, so nothing else has to be agreed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEMBERS = "slipway_members"
ALLOCATION_NAME = re.compile(r".*\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Member `rank` (from 0) of group number `group` (from 0), which has `size` members."""

    group: int
    rank: int
    size: int

    @property
    def leads(self) -> bool:
        """Rank 0 serves the group's requests."""
        return self.rank == 0

    @property
    def others(self) -> range:
        """The ranks that rank 0 waits for."""
        return range(1, self.size)


def members_of(job: Mapping[str, Any]) -> int:
    """How many allocations a replica of a job has, by Nomad's document of the job or its entry in a
    list of them with metadata."""
    return int((job.get("Meta") or {}).get(MEMBERS, 1))


def place_of(index: int, size: int) -> Place:
    """The place of the allocation with this index."""
    return Place(group=index // size, rank=index % size, size=size)


def index_of(allocation_name: str) -> int:
    """The index in an allocation's name: 3 in "model-small-3f9c1a.replica[3]". Raises
    ValueError."""
    found = ALLOCATION_NAME.fullmatch(allocation_name)
    if found is None:
        raise ValueError(f"{allocation_name!r} has no index")
    return int(found[1])


def own_index(environment: Mapping[str, str]) -> int:
    """Of this task's allocation, by Nomad's variable. Raises ValueError if it is missing."""
    value = environment.get("NOMAD_ALLOC_INDEX", "")
    if not value.isdecimal():
        raise ValueError(f"NOMAD_ALLOC_INDEX={value!r} is not the index of an allocation")
    return int(value)
