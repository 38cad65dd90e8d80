"""Which allocations have to move, and when they may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from evacuation.moves import OTHERS_NOT_READY, Move, moves, unhealthy_devices
from evacuation.readiness import readiness

REASON = "XID 79: it has fallen off the bus; boot the host again"


def node(number: int, **healthy: bool) -> dict[str, Any]:
    """With devices by their names."""
    instances = [
        {"ID": uuid, "Healthy": each, "HealthDescription": "" if each else REASON}
        for uuid, each in healthy.items()
    ]
    group = {"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "Instances": instances}
    return {
        "ID": f"node-{number}",
        "Name": f"gpu-{number}",
        "NodeResources": {"Devices": [group]},
    }


def allocation(number: int, *uuids: str, job: str = "model-x", **changes: Any) -> dict[str, Any]:
    """On the node of that number, with these devices."""
    devices = [{"Vendor": "nvidia", "Type": "gpu", "Name": "H100", "DeviceIDs": list(uuids)}]
    return {
        "ID": "-".join(("allocation", *uuids)),
        "JobID": job,
        "JobType": "service",
        "NodeID": f"node-{number}",
        "DesiredStatus": "run",
        "ClientStatus": "running",
        "DesiredTransition": {},
        "AllocatedResources": {
            "Tasks": {"weights": {"Devices": None}, "server": {"Devices": devices}}
        },
        **changes,
    }


def of(
    *allocations: dict[str, Any], unready: tuple[str, ...] = (), members: int = 1, **sick: bool
) -> list[Move]:
    """On one node, whose devices are sound but for those that are given as False."""
    uuids = {
        uuid: sick.get(uuid, True)
        for each in allocations
        for device in each["AllocatedResources"]["Tasks"]["server"]["Devices"]
        for uuid in device["DeviceIDs"]
    }

    def ready(each: Mapping[str, Any]) -> bool:
        return each["ClientStatus"] == "running" and each["ID"] not in unready

    return moves([node(0, **uuids)], allocations, ready, lambda _job: members)


def test_an_allocation_on_an_unhealthy_device_has_to_move() -> None:
    (move,) = of(allocation(0, "a"), allocation(0, "b", "c"), c=False)
    assert (move.allocation, move.job) == ("allocation-b-c", "model-x")
    assert (move.node, move.reasons, move.waits_for) == ("gpu-0", (REASON,), "")


def test_of_a_job_one_moves_at_a_time_and_another_job_need_not_wait() -> None:
    other = allocation(0, "c", job="model-y")
    first, second, third = of(
        allocation(0, "a"), allocation(0, "b"), other, a=False, b=False, c=False
    )
    assert (first.waits_for, second.waits_for, third.waits_for) == ("", OTHERS_NOT_READY, "")


def test_one_that_serves_waits_until_all_others_of_its_job_do() -> None:
    (move,) = of(allocation(0, "a"), allocation(0, "b"), unready=("allocation-b",), a=False)
    assert move.waits_for == OTHERS_NOT_READY
    loading = allocation(0, "b", ClientStatus="pending")
    (move,) = of(allocation(0, "a"), loading, a=False)
    assert move.waits_for == OTHERS_NOT_READY


def test_one_that_does_not_serve_waits_for_nobody() -> None:
    unready = ("allocation-a", "allocation-b")
    (move,) = of(allocation(0, "a"), allocation(0, "b"), unready=unready, a=False)
    assert move.waits_for == ""


def test_while_nomad_has_not_acted_on_a_move_no_other_one_begins() -> None:
    told = allocation(0, "b", DesiredTransition={"Migrate": True})
    (move,) = of(allocation(0, "a"), told, unready=("allocation-a",), a=False, b=False)
    assert (move.allocation, move.waits_for) == ("allocation-a", OTHERS_NOT_READY)


def test_one_that_drains_does_not_hold_up_the_next() -> None:
    draining = allocation(0, "b", DesiredStatus="stop", DesiredTransition={"Migrate": True})
    (move,) = of(allocation(0, "a"), draining, a=False, b=False)
    assert move.waits_for == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"DesiredStatus": "stop"},
        {"DesiredTransition": {"Migrate": True}},
        {"ClientStatus": "complete"},
        {"ClientStatus": "failed"},
        {"ClientStatus": "lost"},
        {"JobType": "batch"},
        {"JobType": "system"},
    ],
)
def test_what_ends_or_ended_or_is_no_service_is_left_alone(changes: dict[str, Any]) -> None:
    assert of(allocation(0, "a", **changes), a=False) == []


def test_a_node_without_devices_has_none_that_is_unhealthy() -> None:
    assert unhealthy_devices({"NodeResources": {"Devices": None}}) == {}
    assert unhealthy_devices({"NodeResources": None}) == {}


def test_an_allocation_is_ready_when_all_checks_of_its_services_pass() -> None:
    first, second = (f"{digit * 8}-1111-2222-3333-{digit * 12}" for digit in "ab")
    checks = [
        {"ServiceID": f"_nomad-group-{first}-group-replica-x-http", "Status": "passing"},
        {"ServiceID": f"_nomad-task-{second}-group-replica-x-http", "Status": "passing"},
        {"ServiceID": f"_nomad-task-{second}-group-replica-x-grpc", "Status": "critical"},
        {"ServiceID": "consul-agent", "Status": "critical"},
        {"ServiceID": "", "Status": "critical"},
    ]
    ready = readiness(checks)
    assert ready({"ID": first, "ClientStatus": "running"})
    assert not ready({"ID": second, "ClientStatus": "running"})
    assert not ready({"ID": first, "ClientStatus": "pending"})


def member(index: int, **changes: Any) -> dict[str, Any]:
    """Of a replica of two, with the device of its letter."""
    return allocation(0, "abcdef"[index], Name=f"model-x.replica[{index}]", **changes)


def test_the_members_of_one_replica_move_together_and_those_of_another_wait() -> None:
    moving = of(*(member(index) for index in range(4)), members=2, a=False, b=False, c=False)
    assert [move.waits_for for move in moving] == ["", "", OTHERS_NOT_READY]


def test_a_member_need_not_wait_for_the_first_member_of_its_own_replica() -> None:
    """With a broken device the replica does not serve, and its first member says so."""
    (move,) = of(member(0), member(1), members=2, unready=("allocation-a",), b=False)
    assert move.waits_for == ""


def test_a_replica_that_serves_stays_whole_while_a_member_of_another_is_not_ready() -> None:
    whole = [member(index) for index in range(4)]
    (move,) = of(*whole, members=2, unready=("allocation-c",), b=False)
    assert move.waits_for == OTHERS_NOT_READY


def test_a_replica_waits_for_another_of_which_a_member_was_told_to_move() -> None:
    told = member(3, DesiredTransition={"Migrate": True})
    (move,) = of(member(0), member(1), member(2), told, members=2, b=False)
    assert move.waits_for == OTHERS_NOT_READY
