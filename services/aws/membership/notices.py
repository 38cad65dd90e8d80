"""Notices of AWS that an instance is about to end, from its metadata. Pure but for the reading.

Amazon EC2 User Guide, "Spot Instance interruption notices" and "EC2 instance rebalance
recommendations"; EC2 Auto Scaling User Guide, "Retrieve the target lifecycle state through instance
metadata".
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

SPOT = "spot/instance-action"
GROUP = "autoscaling/target-lifecycle-state"
REBALANCE = "events/recommendations/rebalance"
TERMINATED = "Terminated"  # the target of an instance that its group ends


class Reason(Enum):
    # A spot instance is at an elevated risk: its group tries to start another, and ends it then.
    REBALANCE = auto()
    GROUP = auto()  # the group ends the instance, once the node says that it has left
    SPOT = auto()  # EC2 ends the instance at a stated time


@dataclass(frozen=True)
class Notice:
    """`ends`: when EC2 takes the instance back; None if nobody says."""

    reason: Reason
    ends: datetime.datetime | None
    by_group: bool  # whether the group waits for the node, whatever else presses

    @property
    def leaves(self) -> bool:
        """Whether the instance ends for certain."""
        return self.reason is not Reason.REBALANCE


def read_notice(text: Callable[[str], str | None]) -> Notice | None:
    """The most pressing one. `text`: the metadata at a path, None where there is none."""
    by_group = (text(GROUP) or "").strip() == TERMINATED
    spot = text(SPOT)
    if spot:
        return Notice(Reason.SPOT, _time(spot), by_group)
    if by_group:
        return Notice(Reason.GROUP, None, by_group)
    if text(REBALANCE):
        return Notice(Reason.REBALANCE, None, by_group)
    return None


def _time(action: str) -> datetime.datetime | None:
    try:
        found = json.loads(action)["time"]
        return datetime.datetime.strptime(found, "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=datetime.timezone.utc
        )
    except (ValueError, KeyError, TypeError):
        return None
