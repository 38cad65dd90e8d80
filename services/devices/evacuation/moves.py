"""Which allocations leave their devices, and where there is a place for them, from what Nomad's
servers know.

Nomad stops an allocation at once when it is asked to, whether or not there is another place
(measured with 1.11.3). So it is asked only if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JsonObject = Mapping[str, Any]
DeviceKind = tuple[str, str]  # vendor, type


@dataclass(frozen=True, kw_only=True)
class Move:
    """An allocation on unhealthy devices. Without a place, `lacks` says why."""

    allocation: str
    job: str
    node: str  # its name
    reasons: tuple[str, ...]
    lacks: str = ""

    @property
    def line(self) -> str:
        where = f"{self.job} on {self.node}: {'; '.join(self.reasons)}"
        return (
            f"waits for another place: {where} ({self.lacks})" if self.lacks else f"moves {where}"
        )


@dataclass(frozen=True, kw_only=True)
class _Need:
    """What an allocation takes of its node: devices by kind, processor shares, memory."""

    devices: Mapping[DeviceKind, int]
    cpu_shares: int
    memory_mb: int


@dataclass(kw_only=True)
class _Room:
    """What is left of a node. `devices` are the healthy ones that nobody has, by kind and model:
    all that a task gets are of one model."""

    pool: str
    devices: dict[tuple[DeviceKind, str], int] = field(default_factory=dict)
    cpu_shares: int
    memory_mb: int

    def has_devices(self, need: _Need) -> bool:
        return all(self._model_with(kind, count) for kind, count in need.devices.items())

    def fits(self, need: _Need) -> bool:
        enough = need.cpu_shares <= self.cpu_shares and need.memory_mb <= self.memory_mb
        return enough and self.has_devices(need)

    def take(self, need: _Need) -> None:
        self.cpu_shares -= need.cpu_shares
        self.memory_mb -= need.memory_mb
        for kind, count in need.devices.items():
            model = self._model_with(kind, count)
            if model is not None:
                self.devices[kind, model] -= count

    def _model_with(self, kind: DeviceKind, count: int) -> str | None:
        return next(
            (
                model
                for (each, model), free in self.devices.items()
                if each == kind and free >= count
            ),
            None,
        )


def moves(nodes: Sequence[JsonObject], allocations: Sequence[JsonObject]) -> list[Move]:
    """In the order of the allocations; a place is promised to one of them only."""
    live = [each for each in allocations if _lives(each)]
    rooms = [_room(node, live) for node in nodes if _takes_work(node)]
    by_id = {node["ID"]: node for node in nodes}
    found: list[Move] = []
    for allocation in live:
        node = by_id.get(allocation["NodeID"], {})
        reasons = tuple(dict.fromkeys(_reasons(node, allocation)))
        if reasons and not _ends(allocation):
            need = _need(allocation)
            pool = node["NodePool"]
            lacks = _reserve([room for room in rooms if room.pool == pool], need, pool)
            found.append(
                Move(
                    allocation=allocation["ID"],
                    job=allocation["JobID"],
                    node=node["Name"],
                    reasons=reasons,
                    lacks=lacks,
                )
            )
    return found


def unhealthy_devices(node: JsonObject) -> dict[str, str]:
    """The reasons by the devices' IDs."""
    return {
        instance["ID"]: instance.get("HealthDescription") or "unhealthy"
        for _, _, instance in _instances(node)
        if not instance["Healthy"]
    }


def _reserve(rooms: Iterable[_Room], need: _Need, pool: str) -> str:
    """Empty if there was a place; else what is missing."""
    considered = list(rooms)
    place = next((room for room in considered if room.fits(need)), None)
    if place is not None:
        place.take(need)
        return ""
    if any(room.has_devices(need) for room in considered):
        return f"no host of pool {pool} has the memory and processor besides the devices"
    wanted = sum(need.devices.values())
    return f"no host of pool {pool} has as many healthy devices free as it takes, {wanted}"


def _room(node: JsonObject, live: Iterable[JsonObject]) -> _Room:
    here = [each for each in live if each["NodeID"] == node["ID"]]
    taken = {uuid for each in here for _, uuids in _devices(each) for uuid in uuids}
    resources, reserved = node["NodeResources"], node.get("ReservedResources") or {}
    room = _Room(
        pool=node["NodePool"],
        cpu_shares=resources["Cpu"]["CpuShares"]
        - (reserved.get("Cpu") or {}).get("CpuShares", 0)
        - sum(_need(each).cpu_shares for each in here),
        memory_mb=resources["Memory"]["MemoryMB"]
        - (reserved.get("Memory") or {}).get("MemoryMB", 0)
        - sum(_need(each).memory_mb for each in here),
    )
    for kind, model, instance in _instances(node):
        if instance["Healthy"] and instance["ID"] not in taken:
            room.devices[kind, model] = room.devices.get((kind, model), 0) + 1
    return room


def _takes_work(node: JsonObject) -> bool:
    eligible = node["SchedulingEligibility"] == "eligible" and not node["Drain"]
    return bool(node["Status"] == "ready" and eligible and node.get("NodeResources"))


def _lives(allocation: JsonObject) -> bool:
    """Whether it takes resources of its node."""
    return allocation["ClientStatus"] in ("pending", "running", "unknown")


def _ends(allocation: JsonObject) -> bool:
    told = (allocation.get("DesiredTransition") or {}).get("Migrate")
    return bool(told) or allocation["DesiredStatus"] != "run"


def _reasons(node: JsonObject, allocation: JsonObject) -> Iterator[str]:
    unhealthy = unhealthy_devices(node)
    for _, uuids in _devices(allocation):
        yield from (unhealthy[uuid] for uuid in uuids if uuid in unhealthy)


def _need(allocation: JsonObject) -> _Need:
    tasks = _tasks(allocation)
    devices: dict[DeviceKind, int] = {}
    for kind, uuids in _devices(allocation):
        devices[kind] = devices.get(kind, 0) + len(uuids)
    return _Need(
        devices=devices,
        cpu_shares=sum(task["Cpu"]["CpuShares"] for task in tasks),
        memory_mb=sum(task["Memory"]["MemoryMB"] for task in tasks),
    )


def _devices(allocation: JsonObject) -> Iterator[tuple[DeviceKind, Sequence[str]]]:
    for task in _tasks(allocation):
        for device in task.get("Devices") or ():
            yield (device["Vendor"], device["Type"]), device["DeviceIDs"]


def _tasks(allocation: JsonObject) -> Sequence[JsonObject]:
    resources = allocation.get("AllocatedResources") or {}
    return list((resources.get("Tasks") or {}).values())


def _instances(node: JsonObject) -> Iterator[tuple[DeviceKind, str, JsonObject]]:
    resources = node.get("NodeResources") or {}
    for group in resources.get("Devices") or ():
        for instance in group["Instances"] or ():
            yield (group["Vendor"], group["Type"]), group["Name"], instance
