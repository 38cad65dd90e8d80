"""An Auto Scaling group as AWS describes it, and what is to be done about its instances. Pure.

Amazon EC2 Auto Scaling API Reference, DescribeAutoScalingGroups and DescribeInstanceRefreshes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Instances that leave are not replaced again.
LEAVES = ("Terminating", "Terminated", "Detach")
GOES_ON = ("Pending", "InProgress", "Baking", "Cancelling", "RollbackInProgress")
SUCCESSFUL, FAILED = "Successful", "Failed"


@dataclass(frozen=True)
class Group:
    """`outdated`: the instances that run from another template than the group's own."""

    instances: int
    outdated: tuple[str, ...]


@dataclass(frozen=True)
class InstanceRefresh:
    """`percent` of the instances are replaced; `reason` is AWS's own, mostly of a failure."""

    id: str
    status: str
    percent: int
    left: int  # instances to replace
    reason: str

    @property
    def goes_on(self) -> bool:
        return self.status in GOES_ON


def read_group(described: Mapping[str, Any]) -> Group | None:
    """None if there is no such group."""
    if not described["AutoScalingGroups"]:
        return None
    (group,) = described["AutoScalingGroups"]
    wanted = _template(group)
    staying = [
        each
        for each in group.get("Instances") or ()
        if not str(each["LifecycleState"]).startswith(LEAVES)
    ]
    outdated = [each["InstanceId"] for each in staying if _template(each) != wanted]
    return Group(instances=len(staying), outdated=tuple(sorted(outdated)))


def read_refreshes(described: Mapping[str, Any]) -> list[InstanceRefresh]:
    return [
        InstanceRefresh(
            id=each["InstanceRefreshId"],
            status=each["Status"],
            percent=int(each.get("PercentageComplete") or 0),
            left=int(each.get("InstancesToUpdate") or 0),
            reason=str(each.get("StatusReason") or ""),
        )
        for each in described["InstanceRefreshes"]
    ]


def _template(described: Mapping[str, Any]) -> tuple[str, str]:
    """Of a group, or of an instance."""
    found = described.get("LaunchTemplate") or {}
    return str(found.get("LaunchTemplateId")), str(found.get("Version"))
