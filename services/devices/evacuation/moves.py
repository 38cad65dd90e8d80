"""Which allocations leave their devices, and in which order, from what the clusters know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from program.group.place import index_of, place_of

from evacuation.places import LIVE

JsonObject = Mapping[str, Any]
OTHERS_NOT_READY = "another replica of its job is not ready"


@dataclass(frozen=True, kw_only=True)
class Move:
    """An allocation on unhealthy devices. `waits_for` is empty if it may move as soon as there is a
    place for another one."""

    allocation: str
    job: str
    node: str  # its name
    reasons: tuple[str, ...]
    waits_for: str = ""

    @property
    def what(self) -> str:
        return f"{self.job} on {self.node}: {'; '.join(self.reasons)}"


def moves(
    nodes: Sequence[JsonObject],
    allocations: Sequence[JsonObject],
    ready: Callable[[JsonObject], bool],
    members: Callable[[str], int],
) -> list[Move]:
    """In the order of the allocations. Of each job at most one replica may move at a time, and one
    that serves only while all others do: a new one takes minutes to load. One that does not serve
    has nothing to lose.

    A replica of several members (`members` of a job) ends with any of them, so its others need not
    wait.
    """
    unhealthy = {node["ID"]: unhealthy_devices(node) for node in nodes}
    names = {node["ID"]: node["Name"] for node in nodes}
    found: list[Move] = []
    chosen: dict[str, str | int] = {}  # by job, the replica that may move
    for allocation in allocations:
        reasons = tuple(dict.fromkeys(_reasons(allocation, unhealthy)))
        if not (reasons and _may_move(allocation)):
            continue
        job = allocation["JobID"]
        of_job = [each for each in allocations if each["JobID"] == job]
        size = members(job)
        replica = replica_of(allocation, size)
        others = [each for each in of_job if replica_of(each, size) != replica]
        own = [each for each in of_job if replica_of(each, size) == replica]
        serves = all(ready(each) for each in own if _stays(each))
        first = chosen.get(job, replica) == replica
        free = first and _undisturbed(others, ready if serves else _anything)
        if free:
            chosen[job] = replica
        found.append(
            Move(
                allocation=allocation["ID"],
                job=job,
                node=names[allocation["NodeID"]],
                reasons=reasons,
                waits_for="" if free else OTHERS_NOT_READY,
            )
        )
    return found


def replica_of(allocation: JsonObject, members: int) -> str | int:
    """The allocation itself or, of several members, the number of their replica."""
    if members == 1:
        return str(allocation["ID"])
    return place_of(index_of(allocation["Name"]), members).group


def unhealthy_devices(node: JsonObject) -> dict[str, str]:
    """The reasons by the devices' IDs."""
    resources = node.get("NodeResources") or {}
    return {
        instance["ID"]: instance.get("HealthDescription") or "unhealthy"
        for group in resources.get("Devices") or ()
        for instance in group["Instances"] or ()
        if not instance["Healthy"]
    }


def _may_move(allocation: JsonObject) -> bool:
    """A service that was not told to move yet. Nomad tells only services where else to run."""
    service = allocation.get("JobType", "service") == "service"
    return bool(service and _stays(allocation) and not _told(allocation))


def _undisturbed(others: Iterable[JsonObject], ready: Callable[[JsonObject], bool]) -> bool:
    """Whether none of the job's other allocations was just told to move, and those that stay are
    ready."""
    staying = [each for each in others if _stays(each)]
    return not any(_told(each) for each in staying) and all(ready(each) for each in staying)


def _anything(_allocation: JsonObject) -> bool:
    return True


def _stays(allocation: JsonObject) -> bool:
    return allocation["ClientStatus"] in LIVE and allocation["DesiredStatus"] == "run"


def _told(allocation: JsonObject) -> bool:
    return bool((allocation.get("DesiredTransition") or {}).get("Migrate"))


def _reasons(allocation: JsonObject, unhealthy: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    of_node = unhealthy.get(allocation["NodeID"], {})
    resources = allocation.get("AllocatedResources") or {}
    for task in (resources.get("Tasks") or {}).values():
        for device in task.get("Devices") or ():
            yield from (of_node[uuid] for uuid in device["DeviceIDs"] if uuid in of_node)
