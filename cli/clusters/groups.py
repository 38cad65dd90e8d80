"""Replicas over several hosts: the members of each, and which of them are missing.

Nomad counts allocations. A job says how many of them are one replica (`slipway_members`), and the
number of an allocation says of which replica it is, and with which rank (docs/adr/0029-*.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

MEMBERS = "slipway_members"
NO_HOST = "has no host"

JsonObject = Mapping[str, Any]


def members_of(job: JsonObject) -> int:
    """How many allocations a replica of a job has; `job` is Nomad's, or its entry in a list."""
    return int((job.get("Meta") or {}).get(MEMBERS, 1))


def place_of(allocation: JsonObject, members: int) -> tuple[int, int]:
    """(number of the replica, rank): replica[3] is rank 1 of replica 1 where two are one."""
    index = int(allocation["Name"].rpartition("[")[2].rstrip("]"))
    return index // members, index % members


def groups(
    job: JsonObject,
    wanted: int,
    allocations: Iterable[JsonObject],
    serving: Collection[str] | None,
) -> list[dict[str, Any]]:
    """The replicas of a job that wants so many allocations, each with what its ranks lack, and
    those beyond them of which a member runs: Nomad leaves it where one of a lower number had no
    host when the count fell.

    `allocations` are the job's that should run, `serving` the IDs of those that get requests; None
    where that is not known."""
    members = members_of(job)
    there = {place_of(each, members): each for each in allocations}
    count = -(-wanted // members)
    beyond = {number for number, _ in there if number >= count}
    return [
        {
            "job": job["ID"],
            "number": number,
            "wanted": number < count,
            "hosts": [each and each["NodeName"] for each in ranks],
            "missing": list(_missing(ranks)),
            "serves": None if serving is None else _id(ranks[0]) in serving,
        }
        for number in [*range(count), *sorted(beyond)]
        for ranks in [[there.get((number, rank)) for rank in range(members)]]
    ]


def _id(allocation: JsonObject | None) -> str:
    return "" if allocation is None else str(allocation["ID"])


def _missing(ranks: Sequence[JsonObject | None]) -> Iterator[dict[str, Any]]:
    for rank, each in enumerate(ranks):
        if each is None:
            yield {"rank": rank, "said": NO_HOST}
        elif each["ClientStatus"] != "running":
            yield {"rank": rank, "said": f"is {each['ClientStatus']} on {each['NodeName']}"}


def serving_allocations(
    allocations: Iterable[JsonObject], nodes: Iterable[JsonObject], healthy: Collection[str]
) -> set[str]:
    """The IDs of the allocations with a port at one of the healthy endpoints ("host:port")."""
    addresses = {node["Name"]: node["Address"] for node in nodes}
    return {
        each["ID"]
        for each in allocations
        for port in _ports(each)
        if f"{addresses.get(each['NodeName'])}:{port}" in healthy
    }


def _ports(allocation: JsonObject) -> Iterator[int]:
    resources = allocation.get("AllocatedResources") or {}
    for port in (resources.get("Shared") or {}).get("Ports") or ():
        yield port["Value"]
