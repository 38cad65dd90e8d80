"""How long the drain of a removed node may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from fake_clock import Clock
from host import departure
from host.document import Departure
from program.errors import HostError
from program.folders import Folders
from program.http_json import ANSWER_S, Api, ApiError

DRAIN_S = 600
LEAVING = Departure(
    consul="http://127.0.0.1:1", nomad="http://127.0.0.1:1", drain_timeout_s=DRAIN_S
)


class Nomad(Api):
    """A node that drains: its last replica is told to end at the deadline, and takes its time."""

    clock: ClassVar[Clock]
    last_end_s = 0.0
    elections: ClassVar[list[tuple[float, float]]] = []
    taken_back: ClassVar[list[str]] = []

    def get(self, path: str) -> Any:
        self.must_have_a_leader()
        if path == "/v1/nodes":
            return [{"ID": "1f", "Name": "cpu-0", "Status": "ready"}]
        ended = self.clock.now_s >= self.last_end_s
        return [{"Name": "model-m.replica[1]", "ClientStatus": "complete" if ended else "running"}]

    def post(self, path: str, body: Any = None) -> Any:
        assert path == "/v1/node/1f/drain"
        self.must_have_a_leader()
        if body == {"DrainSpec": None, "MarkEligible": True}:
            self.taken_back.append(path)
        else:
            assert body["DrainSpec"]["Deadline"] == DRAIN_S * 1_000_000_000

    def must_have_a_leader(self) -> None:
        if any(begin <= self.clock.now_s < end for begin, end in self.elections):
            raise ApiError("HTTP 500: No cluster leader", 500)


@pytest.fixture
def folders(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """With the operator's token."""
    monkeypatch.setattr(departure, "operators", Nomad)
    monkeypatch.setattr(Nomad, "clock", clock, raising=False)
    folders = Folders(run=tmp_path, cache=tmp_path, scratch=tmp_path)
    folders.token("nomad").parent.mkdir()
    folders.token("nomad").write_text("token")
    return folders


def test_a_replica_that_is_told_to_end_at_the_deadline_may_drain_as_long_again(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nomad, "last_end_s", DRAIN_S + 5 + DRAIN_S + 30)  # killed in the end
    departure.drain(folders, "cpu-0", LEAVING)


def test_a_node_that_does_not_drain_is_named_with_what_still_runs(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nomad, "last_end_s", float("inf"))
    with pytest.raises(HostError, match=r"cpu-0 drains: gave up after 1260 s: .*model-m\.replica"):
        departure.drain(folders, "cpu-0", LEAVING)


def test_a_drain_is_waited_for_while_the_servers_choose_a_leader(
    folders: Folders,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    began_s = clock.now_s
    monkeypatch.setattr(Nomad, "elections", [(began_s, began_s + 20), (began_s + 30, began_s + 50)])
    monkeypatch.setattr(Nomad, "last_end_s", began_s + 60)
    departure.drain(folders, "cpu-0", LEAVING)
    assert clock.now_s - began_s >= 60
    told = capsys.readouterr().out
    assert "cpu-0 drains: HTTP 500: No cluster leader" in told
    assert "not drained" not in told


@pytest.mark.parametrize(
    ("error", "patience_s"),
    [
        (ApiError("connection refused", refused=True), 0),
        (ApiError("HTTP 403: Permission denied", 403), 0),
        (ApiError("timed out"), ANSWER_S),
        (ApiError("HTTP 500: No cluster leader", 500), ANSWER_S),
    ],
    ids=str,
)
def test_a_cluster_that_is_gone_is_left_at_once_and_one_that_does_not_answer_later(
    folders: Folders,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: ApiError,
    patience_s: float,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Nomad, "get", fail)
    began_s = clock.now_s
    departure.drain(folders, "cpu-0", LEAVING)
    assert patience_s <= clock.now_s - began_s <= patience_s + 1
    assert f"cpu-0: not drained: {error}" in capsys.readouterr().out


def test_a_removal_that_is_undone_lets_the_host_accept_work_again(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Nomad, "taken_back", [])
    monkeypatch.setattr(Nomad, "elections", [(0.0, 5.0)])
    departure.stay(folders, "cpu-0", LEAVING)
    assert Nomad.taken_back == ["/v1/node/1f/drain"]
    assert "cpu-0: its removal is undone" in capsys.readouterr().out
