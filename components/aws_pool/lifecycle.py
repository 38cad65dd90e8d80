"""How AWS waits for a node that joins or leaves. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from components.aws_pool.names import JOINED_HOOK, LEFT_HOOK
from components.node_pool.node_document import drain_timeout_s
from slipway.plan.platform import PlatformPlan, Pool

# Minutes of an instance's start, and gigabytes that it fetches before it joins.
JOINING_TIMEOUT_S = 1800
# A node that is heard of every minute, and is gone after five silent ones.
HEARTBEAT_S = 300
# Amazon EC2 Auto Scaling User Guide, "Lifecycle hooks": an instance waits for 100 times the
# heartbeat's timeout at most, and never longer than 48 hours.
MOST_HEARTBEATS, LONGEST_HEARTBEAT_S = 100, 7200
ENDING_S = 3600  # of tasks that are told to end at the drain's deadline, and of the agents


def heartbeat_s(plan: PlatformPlan, pool: Pool) -> int:
    """After so many silent seconds the group ends a node that leaves. 100 of them are longer than
    its drain may take, unless that is more than a day."""
    longest_s = 2 * drain_timeout_s(plan, pool) + ENDING_S
    return min(max(HEARTBEAT_S, math.ceil(longest_s / MOST_HEARTBEATS)), LONGEST_HEARTBEAT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """`default_result`: what happens to an instance that is silent for `timeout_s`."""

    name: str
    transition: str
    timeout_s: int
    default_result: str


def joins() -> Hook:
    """One that has not joined in time is ended, and the group starts another."""
    return Hook(
        name=JOINED_HOOK,
        transition="autoscaling:EC2_INSTANCE_LAUNCHING",
        timeout_s=JOINING_TIMEOUT_S,
        default_result="ABANDON",
    )


def leaves(timeout_s: int) -> Hook:
    return Hook(
        name=LEFT_HOOK,
        transition="autoscaling:EC2_INSTANCE_TERMINATING",
        timeout_s=timeout_s,
        default_result="CONTINUE",
    )
