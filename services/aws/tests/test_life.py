"""What a node does next: it joins, tells its group, takes up what changes, and leaves."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from membership import main as module
from membership.main import NOTICES_READ_EVERY_S, SECRET_READ_EVERY_S, Membership
from membership.node import Node, end
from membership.notices import GROUP, REBALANCE
from membership.pool_secret import PoolSecret
from program.errors import HostError
from test_leaving import World, world

__all__ = ["world"]
FIRST, SECOND = (PoolSecret({"certificate": {}, "n": n}, (), "") for n in (1, 2))


class Life:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
        self.world, self.did = world, world.did
        self.secret, self.metadata = FIRST, dict[str, str]()
        self.failing: set[str] = set()
        self.taking_up = ""  # what the program does that takes up changes
        self.seconds = 0.0
        monkeypatch.setattr(module.metadata, "text_or_none", self._text)
        monkeypatch.setattr(module.pool_secret, "current", lambda _: self.secret)
        monkeypatch.setattr(module, "join", lambda _: self._join())
        monkeypatch.setattr(Node, "takes_up_changes", lambda _: self._take_up())
        monkeypatch.setattr(module.lifecycle_actions, "complete", self._complete)
        self.membership = Membership(world.node, lambda: self.seconds)

    def _text(self, path: str) -> str | None:
        if "metadata" in self.failing:
            raise urllib.error.URLError("no route")
        return self.metadata.get(path)

    def _join(self) -> PoolSecret:
        if "join" in self.failing:
            raise HostError("cannot join")
        self.did.append("join")
        return self.secret

    def _take_up(self) -> subprocess.Popen[bytes]:
        self.did.append(f"take up {self.secret.agents['n']}")
        program = self.taking_up
        self.program = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        return self.program

    def _complete(self, _: Any, hook: str) -> bool:
        if hook in self.failing:
            raise HostError("no AWS")
        self.did.append(f"complete {hook}")
        return True

    def goes_on(self, seconds: float = NOTICES_READ_EVERY_S) -> bool:
        self.seconds += seconds
        return self.membership.step()


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch, world: World) -> Life:
    return Life(monkeypatch, world)


def test_a_node_joins_once_and_tells_its_group_until_it_hears(life: Life) -> None:
    life.failing = {"joined"}
    for _ in range(3):
        assert not life.goes_on()
    assert life.did == ["join"]
    life.failing = set()
    for _ in range(3):
        assert not life.goes_on()
    assert life.did == ["join", "complete joined"]


def test_a_node_that_cannot_join_ends_so_that_its_unit_starts_it_again(life: Life) -> None:
    life.failing = {"join"}
    with pytest.raises(HostError, match="cannot join"):
        life.goes_on()


def test_a_changed_secret_is_taken_up_once_and_again_after_a_failure(life: Life) -> None:
    life.goes_on()
    life.secret, life.taking_up = SECOND, "raise SystemExit(1)"
    life.goes_on(SECRET_READ_EVERY_S - 1)
    assert life.did == ["join", "complete joined"]
    for program in ("", ""):
        life.goes_on(SECRET_READ_EVERY_S)
        life.program.wait(60)
        life.goes_on()
        life.taking_up = program
    for _ in range(3):
        life.goes_on(SECRET_READ_EVERY_S)
    assert life.did == ["join", "complete joined", "take up 2", "take up 2"]


def test_a_notice_ends_the_taking_up_of_changes(life: Life) -> None:
    life.goes_on()
    life.secret, life.taking_up = SECOND, "import time; time.sleep(600)"
    life.goes_on(SECRET_READ_EVERY_S)
    life.goes_on()
    assert life.program.poll() is None
    life.metadata = {GROUP: "Terminated"}
    life.goes_on()
    assert life.program.poll() is not None


def test_a_node_that_may_be_taken_back_goes_on_taking_up_changes(life: Life) -> None:
    life.metadata = {REBALANCE: "{}"}
    life.goes_on()
    life.secret = SECOND
    life.goes_on(SECRET_READ_EVERY_S)
    assert life.did == ["join", "vacate", "complete joined", "take up 2"]


def test_a_node_that_leaves_takes_up_nothing_more(life: Life) -> None:
    life.goes_on()
    life.metadata, life.secret = {GROUP: "Terminated"}, SECOND
    life.world.takes("import time; time.sleep(600)")
    for _ in range(3):
        assert not life.goes_on(SECRET_READ_EVERY_S)
    assert "take up 2" not in life.did
    assert "heartbeat left" in life.did
    removal = life.membership._departure._removal
    assert removal is not None
    end(removal)


def test_metadata_that_cannot_be_read_takes_no_notice_back(
    life: Life, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    life.goes_on()
    life.metadata = {GROUP: "Terminated"}
    may_end = tmp_path / "may-end"
    life.world.takes(
        f"import os, time\nwhile not os.path.exists({str(may_end)!r}): time.sleep(0.01)"
    )
    assert not life.goes_on()
    life.failing = {"metadata"}
    removal = life.membership._departure._removal
    assert removal is not None
    may_end.touch()
    removal.wait(60)
    assert life.goes_on()
    assert life.did[-2:] == ["forget", "complete left"]
    assert capsys.readouterr().out.count("metadata cannot be read") == 1


def test_an_instance_that_is_told_to_end_before_it_has_joined_never_joins(life: Life) -> None:
    life.metadata = {GROUP: "Terminated"}
    life.goes_on()
    assert not any(each.startswith("join") for each in life.did)
