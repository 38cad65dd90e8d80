"""A node's life: it joins, takes up what changes for its pool, and leaves when AWS says so.

    node.py FILE        FILE is the pool's boot document (schemas/boot.schema.json)
    node.py FILE take-up    brings the node to its pool's secret, once; run by the first

Ends with exit code 0 once the node has left, and with 1 if it cannot join; its unit then starts it
again, after boot.py. What fails later is said and tried again.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from instance import metadata
from program.errors import HostError, exit_code
from program.waiting import say

from membership import lifecycle_actions, pool_secret
from membership.departure import Departure
from membership.document import read_boot
from membership.joining import join, take_up
from membership.node import TAKE_UP, Node, end, this_node
from membership.notices import Notice, read_notice
from membership.pool_secret import PoolSecret

NOTICES_READ_EVERY_S = 5  # as AWS recommends
SECRET_READ_EVERY_S = 30


class Membership:
    def __init__(self, node: Node, clock: Callable[[], float] = time.monotonic) -> None:
        self._node, self._clock = node, clock
        self._known: PoolSecret | None = None  # what the node has taken up
        self._newest: PoolSecret | None = None  # what it is taking up
        self._taking_up: subprocess.Popen[bytes] | None = None
        self._read_at = 0.0
        self._notice: Notice | None = None
        self._departure = Departure(node, self._certificate)
        self._group_knows = False  # that this instance is a node
        self._said = ""

    def step(self) -> bool:
        """Does what is to be done now. True once the node has left. Raises HostError if it cannot
        join."""
        notice = self._newest_notice()
        if notice is not None and notice.leaves:
            if self._taking_up is not None:
                end(self._taking_up)
            return self._again(lambda: self._departure.step(notice))
        if self._known is None:
            self._join()
        if notice is not None:
            self._again(lambda: self._departure.step(notice))
        if not self._group_knows:
            self._again(self._tell_group)
        self._again(self._take_up_changes)
        return False

    def _newest_notice(self) -> Notice | None:
        """A notice is not taken back, also while the metadata cannot be read."""
        try:
            self._notice = read_notice(metadata.text_or_none) or self._notice
        except OSError as error:
            self._say(f"the instance's metadata cannot be read: {error}")
        return self._notice

    def _join(self) -> None:
        self._read_at = self._clock()
        self._known = join(self._node)
        say(f"{self._node.host} is a node of pool {self._node.boot.pool}")

    def _tell_group(self) -> None:
        """A group that has just started this instance counts it from now on."""
        lifecycle_actions.complete(self._node, self._node.boot.group.joined)
        self._group_knows = True

    def _take_up_changes(self) -> None:
        if self._taking_up is not None:
            self._look_whether_taken_up(self._taking_up)
        elif self._clock() - self._read_at >= SECRET_READ_EVERY_S:
            self._read_at = self._clock()
            self._newest = pool_secret.current(self._node.boot)
            if self._newest != self._known:
                self._taking_up = self._node.takes_up_changes()

    def _look_whether_taken_up(self, taking_up: subprocess.Popen[bytes]) -> None:
        status = taking_up.poll()
        if status is None:
            return
        self._taking_up = None
        if status == 0:
            self._known = self._newest
            say(f"{self._node.host} has taken up what changed for pool {self._node.boot.pool}")

    def _certificate(self) -> Mapping[str, str]:
        if self._known is None:
            self._known = pool_secret.current(self._node.boot)
        return self._known.certificate

    def _again(self, action: Callable[[], bool | None]) -> bool:
        """What the action returns; False if that is nothing, or if it has to be tried again."""
        try:
            return bool(action())
        except HostError as error:
            self._say(str(error))
            return False

    def _say(self, line: str) -> None:
        """Once: it is tried again every few seconds."""
        if line != self._said:
            say(line)
        self._said = line


def run(arguments: list[str]) -> None:
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], [TAKE_UP]):
        raise HostError("usage: node.py FILE [take-up]")
    node = this_node(read_boot(Path(arguments[0])))
    if arguments[1:]:
        take_up(node, pool_secret.current(node.boot))
        return
    membership = Membership(node)
    while not membership.step():
        time.sleep(NOTICES_READ_EVERY_S)  # metadata has no events


def main(arguments: list[str]) -> int:
    return exit_code(lambda: run(arguments))
