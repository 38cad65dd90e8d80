"""Whether Nomad has a place for an allocation that leaves its devices.

Nomad's own dry run of a job would say it, but version 1.11.3 refuses it to workload identities
(measured: "acl token lookup failed: … UUID must be 36 characters").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JsonObject = Mapping[str, Any]
LIVE = ("pending", "running", "unknown")  # that take resources of their node
DeviceKind = tuple[str, str]  # vendor, type


@dataclass(frozen=True, kw_only=True)
class _Need:
    """What an allocation takes of its node: devices by kind, processor shares, memory."""

    devices: Mapping[DeviceKind, int]
    cpu_shares: int
    memory_mb: int


@dataclass(frozen=True, kw_only=True)
class _Room:
    """What is left of a node. `devices` are the healthy ones that nobody has, by kind and model:
    all that a task gets are of one model."""

    devices: Mapping[tuple[DeviceKind, str], int]
    cpu_shares: int
    memory_mb: int

    def has_devices(self, need: _Need) -> bool:
        return all(
            any(each == kind and free >= count for (each, _), free in self.devices.items())
            for kind, count in need.devices.items()
        )

    def fits(self, need: _Need) -> bool:
        enough = need.cpu_shares <= self.cpu_shares and need.memory_mb <= self.memory_mb
        return enough and self.has_devices(need)


def why_no_place(
    allocation: JsonObject, nodes: Sequence[JsonObject], allocations: Sequence[JsonObject]
) -> str:
    """Empty if a node of its pool has room for it, with what it leaves itself; else what is
    missing."""
    pool = next(node["NodePool"] for node in nodes if node["ID"] == allocation["NodeID"])
    others = [
        each
        for each in allocations
        if each["ClientStatus"] in LIVE and each["ID"] != allocation["ID"]
    ]
    need = _need(allocation)
    rooms = [
        _room(node, [each for each in others if each["NodeID"] == node["ID"]])
        for node in nodes
        if node["NodePool"] == pool and _takes_work(node)
    ]
    if any(room.fits(need) for room in rooms):
        return ""
    if any(room.has_devices(need) for room in rooms):
        return f"no host of pool {pool} has the memory and processor besides the devices"
    wanted = sum(need.devices.values())
    return f"no host of pool {pool} has as many healthy devices free as it takes, {wanted}"


def _room(node: JsonObject, here: Sequence[JsonObject]) -> _Room:
    needs = [_need(each) for each in here]
    taken = {uuid for each in here for _, uuids in _devices(each) for uuid in uuids}
    free: dict[tuple[DeviceKind, str], int] = {}
    for group in node["NodeResources"].get("Devices") or ():
        model = (group["Vendor"], group["Type"]), group["Name"]
        for instance in group["Instances"] or ():
            if instance["Healthy"] and instance["ID"] not in taken:
                free[model] = free.get(model, 0) + 1
    resources, reserved = node["NodeResources"], node.get("ReservedResources") or {}
    return _Room(
        devices=free,
        cpu_shares=resources["Cpu"]["CpuShares"]
        - (reserved.get("Cpu") or {}).get("CpuShares", 0)
        - sum(each.cpu_shares for each in needs),
        memory_mb=resources["Memory"]["MemoryMB"]
        - (reserved.get("Memory") or {}).get("MemoryMB", 0)
        - sum(each.memory_mb for each in needs),
    )


def _takes_work(node: JsonObject) -> bool:
    eligible = node["SchedulingEligibility"] == "eligible" and not node["Drain"]
    return bool(node["Status"] == "ready" and eligible and node.get("NodeResources"))


def _need(allocation: JsonObject) -> _Need:
    devices: dict[DeviceKind, int] = {}
    for kind, uuids in _devices(allocation):
        devices[kind] = devices.get(kind, 0) + len(uuids)
    return _Need(
        devices=devices,
        cpu_shares=_at_once(allocation, "Cpu", "CpuShares"),
        memory_mb=_at_once(allocation, "Memory", "MemoryMB"),
    )


def _at_once(allocation: JsonObject, resource: str, unit: str) -> int:
    """As Nomad counts: tasks that end before the main ones start share their place with them."""
    resources = allocation.get("AllocatedResources") or {}
    lifecycles = resources.get("TaskLifecycles") or {}
    beside, in_turn = 0, {"prestart": 0, "main": 0, "poststop": 0}
    for name, task in (resources.get("Tasks") or {}).items():
        size = task[resource][unit]
        lifecycle = lifecycles.get(name)
        if lifecycle and lifecycle.get("Sidecar"):
            beside += size
        else:
            hook = lifecycle["Hook"] if lifecycle else "main"
            in_turn["main" if hook == "poststart" else hook] += size
    return int(beside + max(in_turn.values()))


def _devices(allocation: JsonObject) -> Iterator[tuple[DeviceKind, Sequence[str]]]:
    resources = allocation.get("AllocatedResources") or {}
    for task in (resources.get("Tasks") or {}).values():
        for device in task.get("Devices") or ():
            yield (device["Vendor"], device["Type"]), device["DeviceIDs"]
