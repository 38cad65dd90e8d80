"""Jobs with members beyond their count get one that covers them; without any agent."""

from __future__ import annotations

from typing import Any

import pytest
from counts.members_beyond import Counts, covering
from program.http_json import Api


@pytest.mark.parametrize(
    ("count", "indexes", "members", "most", "wanted"),
    [
        (4, [0, 1, 2, 3], 2, 8, 4),
        (4, [0, 2, 3], 2, 8, 4),  # a gap below the count is Nomad's to fill
        (4, [], 2, 8, 4),
        (2, [0, 2], 2, 8, 4),
        (2, [0, 5], 2, 8, 6),
        (3, [0, 1, 5], 3, 9, 6),
        (2, [0, 5], 2, 4, 4),  # no more than the maximum
        (2, [0, 2], 2, 2, 2),
    ],
)
def test_a_count_covers_every_member_in_whole_groups_within_the_maximum(
    count: int, indexes: list[int], members: int, most: int, wanted: int
) -> None:
    assert covering(count, indexes, members, most) == wanted
    assert wanted % members == 0


class Nomad(Api):
    """A job of groups of two, of which a count of 2 has left 0 and 2."""

    def __init__(self, *, members: int = 2, enabled: bool = True, stopped: bool = False) -> None:
        super().__init__("http://127.0.0.1:1")
        self.count, self.indexes = 2, [0, 2]
        self._meta = {"slipway_members": str(members)} if members > 1 else None
        self._enabled, self._stopped = enabled, stopped
        self.put_to: list[tuple[str, Any]] = []

    def get(self, path: str) -> Any:
        if path.endswith("/allocations"):
            here = [(index, "run") for index in self.indexes] + [(9, "stop")]
            return [{"Name": f"m.replica[{n}]", "DesiredStatus": status} for n, status in here]
        if path == "/v1/jobs?meta=true":
            return [{"ID": "m", "Stop": self._stopped, "Meta": self._meta}]
        scaling = {"Enabled": self._enabled, "Max": 8}
        group = {"Name": "replica", "Count": self.count, "Scaling": scaling}
        return {"ID": "m", "Meta": self._meta, "TaskGroups": [group]}

    def put(self, path: str, body: Any = None) -> Any:
        self.put_to.append((path, body))
        self.count = body["Count"]


def test_members_that_stay_beyond_the_count_are_covered_once() -> None:
    nomad = Nomad()
    counts = Counts(nomad)
    counts.look()
    assert nomad.put_to == [], "Nomad may just be ending them"
    counts.look()
    ((path, body),) = nomad.put_to
    assert path == "/v1/job/m/scale"
    assert (body["Count"], body["Target"]) == (4, {"Group": "replica"})
    counts.look()
    counts.look()
    assert len(nomad.put_to) == 1


def test_members_that_nomad_ends_meanwhile_change_nothing() -> None:
    nomad = Nomad()
    counts = Counts(nomad)
    counts.look()
    nomad.indexes = [0, 1]
    counts.look()
    nomad.indexes = [0, 2]
    counts.look()
    assert nomad.put_to == []


@pytest.mark.parametrize(
    "nomad",
    [Nomad(members=1), Nomad(enabled=False), Nomad(stopped=True)],
    ids=["replicas on one host", "replicas that a change exchanges", "a job that was stopped"],
)
def test_other_jobs_keep_their_count(nomad: Nomad) -> None:
    counts = Counts(nomad)
    counts.look()
    counts.look()
    assert nomad.put_to == []
