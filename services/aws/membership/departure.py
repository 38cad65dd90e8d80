"""How a node leaves: its work moves away, its agents end, the clusters forget it, and the group
that waits for it goes on.

Every step may be done twice, so a node that is started again meanwhile just begins again.
"""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable, Mapping

from program.errors import HostError
from program.waiting import say

from membership import lifecycle_actions
from membership.introducers import EVACUATE, FORGET, VACATE, requested
from membership.node import Node, end
from membership.notices import Notice, Reason

SPOT_NOTICE_S = 120  # if the notice does not say when the instance ends
# Before an instance ends: Nomad's servers are told to forget its node.
FORGOTTEN_BEFORE_S = 8
FORGOTTEN_WITHIN_S = 60  # after the removal, or else not at all
# What a drain takes besides its own time (services/host/host/self_drain.py), and a reserve.
AROUND_DRAIN_S = 38
HEARTBEATS = 5  # in the time that the group waits for one

SAID = {
    Reason.REBALANCE: "EC2 may soon take this spot instance back",
    Reason.GROUP: "the group ends this instance",
    Reason.SPOT: "EC2 takes this spot instance back",
}


class Departure:
    """`certificate` is that of the node's pool, which introducers want to see."""

    def __init__(
        self,
        node: Node,
        certificate: Callable[[], Mapping[str, str]],
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.timezone.utc),
    ) -> None:
        self._node, self._certificate, self._now = node, certificate, now
        self._reason: Reason | None = None
        self._removal: subprocess.Popen[bytes] | None = None
        self._deadline: datetime.datetime | None = None  # of the removal
        self._removed_at: datetime.datetime | None = None
        self._requested: set[str] = set()
        self._heard: datetime.datetime | None = None  # when the group last heard of this node

    def step(self, notice: Notice) -> bool:
        """Does what can be done now, without waiting. True once the node has left and nobody waits
        for it. Raises HostError for a step that has to be tried again."""
        if notice.reason is not self._reason:
            self._begin(notice)
        if not notice.leaves:  # it serves until another instance is there
            self._request_once(VACATE)
            return False
        if notice.by_group:
            self._keep_group_waiting()
        if notice.reason is Reason.SPOT:
            self._request_once(EVACUATE)
        if not self._is_removed():
            return False
        self._have_it_forgotten()
        if notice.by_group:
            lifecycle_actions.complete(self._node, self._node.boot.group.left)
        say(f"{self._node.host} has left")
        return True

    def _begin(self, notice: Notice) -> None:
        """A spot notice starts a removal again, in the time that is left."""
        self._reason = notice.reason
        say(f"{self._node.host}: {SAID[notice.reason]}")
        if notice.reason is not Reason.SPOT:
            return
        now = self._now()
        ends = notice.ends or now + datetime.timedelta(seconds=SPOT_NOTICE_S)
        self._deadline = ends - datetime.timedelta(seconds=FORGOTTEN_BEFORE_S)
        # Nothing moves one by one any more: all work that is here is told to end.
        self._or_say(lambda: self._request_once(EVACUATE))
        if self._removal is not None:
            end(self._removal)
        self._removal = self._node.leaves(drain_s(self._deadline - now))

    def _is_removed(self) -> bool:
        if self._removed_at is not None:
            return True
        if self._removal is None:
            self._removal = self._node.leaves(None)
        status = self._removal.poll()
        if status is None and self._deadline is not None and self._now() >= self._deadline:
            end(self._removal)  # the machine ends before the last answers do
        elif status is None:
            return False
        elif status != 0:
            self._removal = None
            raise HostError(f"the agents are not removed (exit {status})")
        self._removed_at = self._now()
        return True

    def _request_once(self, request: str) -> None:
        if request not in self._requested:
            requested(self._node.boot, self._certificate(), request)
            self._requested.add(request)

    def _have_it_forgotten(self) -> None:
        """Nomad forgets a node that is down by itself, after a day: an instance that waits for it
        much longer would only cost money."""
        assert self._removed_at is not None  # noqa: S101
        if self._now() - self._removed_at < datetime.timedelta(seconds=FORGOTTEN_WITHIN_S):
            self._request_once(FORGET)
        else:
            self._or_say(lambda: self._request_once(FORGET))

    def _keep_group_waiting(self) -> None:
        now, group = self._now(), self._node.boot.group
        pause = datetime.timedelta(seconds=group.heartbeat_s / HEARTBEATS)
        if self._heard is None or now - self._heard >= pause:
            self._heard = now
            self._or_say(lambda: lifecycle_actions.heartbeat(self._node, group.left))

    def _or_say(self, action: Callable[[], object]) -> None:
        """What must not keep the node from leaving."""
        try:
            action()
        except HostError as error:
            say(str(error))


def drain_s(left: datetime.timedelta) -> int:
    """The time that a drain has, so that the removal ends in the time that is `left`."""
    return max(1, int(left.total_seconds()) - AROUND_DRAIN_S)
