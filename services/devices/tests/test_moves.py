"""Which allocations have to move, and whether there is a place for them."""

from __future__ import annotations

from typing import Any

import pytest
from evacuation.moves import moves, unhealthy_devices

REASON = "XID 79: it has fallen off the bus; boot the host again"


def node(number: int, pool: str = "gpu", **healthy: bool) -> dict[str, Any]:
    """With devices by their names; 1000 shares and 1000 MB."""
    instances = [
        {"ID": uuid, "Healthy": each, "HealthDescription": "" if each else REASON}
        for uuid, each in healthy.items()
    ]
    group = {"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "Instances": instances}
    return {
        "ID": f"node-{number}",
        "Name": f"gpu-{number}",
        "NodePool": pool,
        "Status": "ready",
        "SchedulingEligibility": "eligible",
        "Drain": False,
        "NodeResources": {
            "Cpu": {"CpuShares": 1000},
            "Memory": {"MemoryMB": 1000},
            "Devices": [group],
        },
        "ReservedResources": {"Cpu": {"CpuShares": 0}, "Memory": {"MemoryMB": 0}},
    }


def allocation(
    number: int, *uuids: str, cpu: int = 100, memory_mb: int = 100, **changes: Any
) -> dict[str, Any]:
    """On the node of that number, with these devices."""
    devices = [{"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "DeviceIDs": list(uuids)}]
    task = {
        "Cpu": {"CpuShares": cpu},
        "Memory": {"MemoryMB": memory_mb},
        "Devices": devices if uuids else None,
    }
    return {
        "ID": "-".join(("allocation", *uuids)),
        "JobID": "model-x-3f9c1a",
        "NodeID": f"node-{number}",
        "DesiredStatus": "run",
        "ClientStatus": "running",
        "DesiredTransition": {},
        "AllocatedResources": {"Tasks": {"server": task}},
        **changes,
    }


def test_an_allocation_on_an_unhealthy_device_moves_to_one_that_is_free() -> None:
    sound, sick = allocation(0, "a"), allocation(0, "b")
    (move,) = moves([node(0, a=True, b=False), node(1, c=True)], [sound, sick, allocation(0)])
    assert (move.allocation, move.lacks) == ("allocation-b", "")
    assert move.line == f"moves model-x-3f9c1a on gpu-0: {REASON}"


def test_another_device_of_the_same_host_is_a_place() -> None:
    (move,) = moves([node(0, a=False, b=True)], [allocation(0, "a")])
    assert move.lacks == ""


def test_without_a_free_device_it_waits_and_says_so() -> None:
    taken = allocation(1, "c")
    (move,) = moves([node(0, a=False), node(1, c=True)], [allocation(0, "a"), taken])
    assert move.lacks == "no host of pool gpu has as many healthy devices free as it takes, 1"


def test_a_replica_of_two_devices_needs_two_on_one_host() -> None:
    nodes = [node(0, a=False, b=True), node(1, c=True, d=True), node(2, e=True)]
    sick = allocation(0, "a", "b")
    (move,) = moves(nodes, [sick, allocation(1, "c")])
    assert "as it takes, 2" in move.lacks
    (move,) = moves(nodes, [sick])
    assert move.lacks == ""


def test_a_place_is_promised_once() -> None:
    nodes = [node(0, a=False, b=False), node(1, c=True)]
    first, second = moves(nodes, [allocation(0, "a"), allocation(0, "b")])
    assert first.lacks == ""
    assert second.lacks != ""


@pytest.mark.parametrize(
    "other",
    [
        node(1, c=True) | {"SchedulingEligibility": "ineligible"},
        node(1, c=True) | {"Drain": True},
        node(1, c=True) | {"Status": "down"},
        node(1, pool="another", c=True),
        node(1, c=False),
    ],
    ids=["ineligible", "draining", "down", "another pool", "unhealthy"],
)
def test_a_host_that_takes_no_such_work_is_no_place(other: dict[str, Any]) -> None:
    (move,) = moves([node(0, a=False), other], [allocation(0, "a")])
    assert "no host of pool gpu" in move.lacks


@pytest.mark.parametrize("size", [{"cpu": 950}, {"memory_mb": 950}])
def test_a_place_also_has_the_memory_and_the_processor(size: dict[str, int]) -> None:
    nodes = [node(0, a=False), node(1, c=True)]
    others = allocation(1)
    (move,) = moves(nodes, [allocation(0, "a", **size), others])
    assert "memory and processor" in move.lacks
    (move,) = moves(nodes, [allocation(0, "a", **size)])
    assert move.lacks == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"DesiredStatus": "stop"},
        {"DesiredTransition": {"Migrate": True}},
        {"ClientStatus": "complete"},
        {"ClientStatus": "failed"},
        {"ClientStatus": "lost"},
    ],
)
def test_an_allocation_that_ends_or_ended_is_left_alone(changes: dict[str, Any]) -> None:
    assert moves([node(0, a=False, b=True)], [allocation(0, "a", **changes)]) == []


def test_one_that_ends_still_has_its_device() -> None:
    ending = allocation(1, "c", DesiredStatus="stop")
    (move,) = moves([node(0, a=False), node(1, c=True)], [allocation(0, "a"), ending])
    assert move.lacks != ""


def test_a_node_without_devices_has_none_that_is_unhealthy() -> None:
    assert unhealthy_devices({"NodeResources": {"Devices": None}}) == {}
    assert unhealthy_devices({"NodeResources": None}) == {}
