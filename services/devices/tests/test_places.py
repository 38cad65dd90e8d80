"""Whether there is a place for an allocation that leaves its devices."""

from __future__ import annotations

from typing import Any

import pytest
from evacuation.places import why_no_place


def node(number: int, pool: str = "gpu", **healthy: bool) -> dict[str, Any]:
    """With devices by their names; 1000 shares and 1000 MB."""
    instances = [{"ID": uuid, "Healthy": each} for uuid, each in healthy.items()]
    group = {"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "Instances": instances}
    return {
        "ID": f"node-{number}",
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
    """A replica on the node of that number, with these devices: weights first, then the server with
    a proxy beside both."""
    devices = [{"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "DeviceIDs": list(uuids)}]
    size = {"Cpu": {"CpuShares": cpu}, "Memory": {"MemoryMB": memory_mb}}
    proxy = {"Cpu": {"CpuShares": 10}, "Memory": {"MemoryMB": 10}}
    return {
        "ID": "-".join(("allocation", str(number), *uuids)),
        "NodeID": f"node-{number}",
        "ClientStatus": "running",
        "AllocatedResources": {
            "Tasks": {"tls-proxy": proxy, "weights": size, "server": {**size, "Devices": devices}},
            "TaskLifecycles": {
                "tls-proxy": {"Hook": "prestart", "Sidecar": True},
                "weights": {"Hook": "prestart", "Sidecar": False},
                "server": None,
            },
        },
        **changes,
    }


def lacks(nodes: list[dict[str, Any]], sick: dict[str, Any], *others: dict[str, Any]) -> str:
    return why_no_place(sick, nodes, [sick, *others])


def test_a_free_healthy_device_of_another_host_is_a_place() -> None:
    assert lacks([node(0, a=False), node(1, c=True)], allocation(0, "a")) == ""


def test_another_device_of_the_same_host_is_a_place() -> None:
    assert lacks([node(0, a=False, b=True)], allocation(0, "a")) == ""


def test_the_healthy_devices_that_it_leaves_itself_count() -> None:
    nodes = [node(0, a=False, b=True, c=True)]
    assert lacks(nodes, allocation(0, "a", "b")) == ""
    assert "as it takes, 2" in lacks(nodes, allocation(0, "a", "b"), allocation(0, "c"))


def test_without_a_free_device_there_is_none() -> None:
    nodes = [node(0, a=False), node(1, c=True)]
    wanted = "no host of pool gpu has as many healthy devices free as it takes, 1"
    assert lacks(nodes, allocation(0, "a"), allocation(1, "c")) == wanted


def test_a_replica_of_two_devices_needs_two_on_one_host() -> None:
    nodes = [node(0, a=False, b=False), node(1, c=True), node(2, e=True)]
    assert "as it takes, 2" in lacks(nodes, allocation(0, "a", "b"))


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
    assert "no host of pool gpu" in lacks([node(0, a=False), other], allocation(0, "a"))


def test_one_that_ends_still_has_its_device() -> None:
    nodes = [node(0, a=False), node(1, c=True)]
    assert lacks(nodes, allocation(0, "a"), allocation(1, "c", DesiredStatus="stop")) != ""
    assert lacks(nodes, allocation(0, "a"), allocation(1, "c", ClientStatus="complete")) == ""


@pytest.mark.parametrize("size", [{"cpu": 600}, {"memory_mb": 600}])
def test_a_place_also_has_the_memory_and_the_processor(size: dict[str, int]) -> None:
    nodes = [node(0, a=False), node(1, c=True, d=True)]
    sick, other = allocation(0, "a", **size), allocation(1, "c", **size)
    assert lacks(nodes, sick) == ""
    assert "memory and processor" in lacks(nodes, sick, other)


def test_tasks_that_end_before_the_server_starts_share_its_place() -> None:
    nodes = [node(0, a=False), node(1, c=True, d=True)]
    sick, other = allocation(0, "a", memory_mb=480), allocation(1, "c", memory_mb=480)
    assert lacks(nodes, sick, other) == ""  # 980 of 1000 MB, not twice as much
