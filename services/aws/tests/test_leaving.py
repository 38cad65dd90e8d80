"""A node leaves by AWS's notices: what it asks of introducers and of its group, in which order."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from membership import departure as module
from membership import lifecycle_actions
from membership.departure import Departure, drain_s
from membership.document import Boot, Group
from membership.node import Node, end
from membership.notices import GROUP, REBALANCE, SPOT, Notice, Reason, read_notice
from program.errors import HostError
from program.folders import Folders

NOW = datetime.datetime(2026, 11, 29, 12, 0, 0, tzinfo=datetime.timezone.utc)
ACTION = json.dumps({"action": "terminate", "time": "2026-11-29T12:02:00Z"})
ENDS = NOW + datetime.timedelta(minutes=2)
BY_GROUP = Notice(Reason.GROUP, None, by_group=True)
BY_SPOT = Notice(Reason.SPOT, ENDS, by_group=False)
REBALANCED = Notice(Reason.REBALANCE, None, by_group=False)


@pytest.mark.parametrize(
    ("metadata", "notice"),
    [
        ({}, None),
        ({GROUP: "InService"}, None),
        ({GROUP: "Terminated\n"}, BY_GROUP),
        ({GROUP: "InService", REBALANCE: '{"noticeTime": "2026-11-29T11:59:00Z"}'}, REBALANCED),
        ({GROUP: "InService", SPOT: ACTION, REBALANCE: "{}"}, BY_SPOT),
        ({GROUP: "Terminated", SPOT: ACTION}, Notice(Reason.SPOT, ENDS, by_group=True)),
        ({SPOT: "{}"}, Notice(Reason.SPOT, None, by_group=False)),
        ({SPOT: "soon"}, Notice(Reason.SPOT, None, by_group=False)),
    ],
)
def test_the_most_pressing_notice_counts(
    metadata: Mapping[str, str], notice: Notice | None
) -> None:
    assert read_notice(metadata.get) == notice


def test_a_drain_leaves_time_for_what_comes_after_it() -> None:
    assert drain_s(datetime.timedelta(seconds=112)) == 74
    assert drain_s(datetime.timedelta(seconds=-3)) == 1


class World:
    """What a leaving node does, in order; `agents` is the removal of its agents."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.did: list[str] = []
        self.failing: set[str] = set()
        self.now = NOW
        self.agents = folder / "agents.py"
        self.removed = folder / "removed"
        folders = Folders(run=folder, cache=folder, scratch=folder)
        boot = Boot(
            file=str(folder / "boot.json"),
            environment="prod",
            pool="l4",
            region="us-east-1",
            bucket="b",
            prefix="p",
            running="r",
            secret="s",
            sts="https://sts/",
            introducers=("https://10.0.0.1:4650",),
            introducers_name="introducer",
            folders=folders,
            agents=str(self.agents),
            node={"host": "@host@", "departure": {"drain_timeout_s": 3600}},
            group=Group(name="prod-l4", joined="joined", left="left", heartbeat_s=300),
        )
        self.node = Node(boot, "i-0123456789abcdef0", "10.0.0.7")
        self.takes("")
        monkeypatch.setattr(module, "requested", self._requested)
        monkeypatch.setattr(lifecycle_actions, "complete", self._told("complete"))
        monkeypatch.setattr(lifecycle_actions, "heartbeat", self._told("heartbeat"))
        self.departure = Departure(self.node, lambda: {}, lambda: self.now)

    def takes(self, program: str) -> None:
        """What the removal does before it is done."""
        write = (
            "import json, os, sys; timeout = json.loads(os.environ['SLIPWAY_DOCUMENT'])"
            f"['departure']['drain_timeout_s']; open({str(self.removed)!r}, 'a')"
            ".write(f'{sys.argv[1]} {timeout}\\n')"
        )
        self.agents.write_text(f"{write}\n{program}\n")

    def _requested(self, boot: Boot, certificate: Any, request: str) -> None:
        if request in self.failing:
            raise HostError(f"no introducer for {request}")
        self.did.append(request)

    def _told(self, what: str) -> Callable[[Node, str], bool]:
        def tell(node: Node, hook: str) -> bool:
            if what in self.failing:
                raise HostError("no AWS")
            self.did.append(f"{what} {hook}")
            return True

        return tell

    def step_until_removed(self, notice: Notice) -> bool:
        ended = self.departure.step(notice)
        removal = self.departure._removal
        assert isinstance(removal, subprocess.Popen)
        removal.wait(60)
        return ended or self.departure.step(notice)

    @property
    def removals(self) -> list[str]:
        return self.removed.read_text().splitlines() if self.removed.exists() else []


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    assert sys.executable
    return World(monkeypatch, tmp_path)


def test_a_group_hears_of_a_node_until_it_has_left(world: World) -> None:
    assert world.step_until_removed(BY_GROUP)
    assert world.removals == ["remove 3600"]
    assert world.did == ["heartbeat left", "forget", "complete left"]


def test_a_group_hears_five_times_in_the_time_that_it_waits(world: World) -> None:
    world.takes("import time; time.sleep(600)")
    for _ in range(10):
        assert not world.departure.step(BY_GROUP)
        world.now += datetime.timedelta(seconds=30)
    assert world.did == ["heartbeat left"] * 5
    removal = world.departure._removal
    assert removal is not None
    end(removal)


def test_a_group_that_cannot_be_told_keeps_no_node_from_leaving(world: World) -> None:
    world.failing = {"heartbeat"}
    assert world.step_until_removed(BY_GROUP)
    assert world.did == ["forget", "complete left"]


def test_a_spot_notice_empties_the_node_at_once_and_shortens_its_drain(world: World) -> None:
    assert world.step_until_removed(BY_SPOT)
    assert world.removals == ["remove 74"]
    assert world.did == ["evacuate", "forget"]


def test_a_spot_notice_during_a_drain_starts_it_again(world: World) -> None:
    world.takes("import time; time.sleep(600)")
    assert not world.departure.step(BY_GROUP)
    first = world.departure._removal
    assert first is not None
    world.takes("")
    both = Notice(Reason.SPOT, ENDS, by_group=True)
    assert world.step_until_removed(both)
    assert first.poll() is not None
    assert world.removals[-1] == "remove 74"
    assert world.did == ["heartbeat left", "evacuate", "forget", "complete left"]


def test_what_does_not_end_in_time_is_forgotten_before_the_machine_ends(world: World) -> None:
    world.takes("import time; time.sleep(600)")
    assert not world.departure.step(BY_SPOT)
    world.now = ENDS - datetime.timedelta(seconds=9)
    assert not world.departure.step(BY_SPOT)
    world.now = ENDS - datetime.timedelta(seconds=8)
    assert world.departure.step(BY_SPOT)
    assert world.did == ["evacuate", "forget"]


def test_at_a_rebalance_recommendation_work_moves_where_there_is_room_and_the_node_stays(
    world: World,
) -> None:
    for _ in range(2):
        assert not world.departure.step(REBALANCED)
    assert (world.did, world.removals) == (["vacate"], [])
    assert world.step_until_removed(BY_GROUP)
    assert world.did == ["vacate", "heartbeat left", "forget", "complete left"]
    assert len(world.removals) == 1


def test_an_instance_does_not_wait_for_introducers_for_ever(world: World) -> None:
    world.failing = {"forget"}
    with pytest.raises(HostError):
        world.step_until_removed(BY_GROUP)
    world.now += datetime.timedelta(seconds=61)
    assert world.departure.step(BY_GROUP)
    assert world.did == ["heartbeat left", "heartbeat left", "complete left"]


def test_an_introducer_that_is_away_is_asked_again(world: World) -> None:
    world.failing = {"evacuate"}
    for _ in range(2):
        with pytest.raises(HostError):
            world.departure.step(BY_SPOT)
    assert world.did == []
    world.failing = set()
    assert world.step_until_removed(BY_SPOT)
    assert world.did == ["evacuate", "forget"]
    assert len(world.removals) == 1


def test_a_removal_that_fails_is_begun_again(world: World) -> None:
    world.takes("sys.exit(1)")
    with pytest.raises(HostError, match="not removed"):
        world.step_until_removed(BY_GROUP)
    world.takes("")
    assert world.step_until_removed(BY_GROUP)
    assert len(world.removals) == 2
