"""Which snapshots there are, and which is restored."""

from __future__ import annotations

import dataclasses
import datetime
import json

import jsonschema
import pytest

from cli.errors import CliError
from cli.snapshots.kept import Snapshot, chosen, document, read
from cli.views.snapshots_table import age
from slipway.plan.platform import SnapshotPlan
from tests.components.platform_plan import platform_plan
from tests.unit.cli.checkouts import ROOT

SCHEMA = json.loads((ROOT / "schemas/snapshots.schema.json").read_text())
LISTED = """\
nomad-20261125T120000Z.snap 2000
consul-20261125T120000Z.snap 1000
consul-20261125T060000Z.snap 900
nomad-20261125T060000Z.snap 1900
consul-20261125T180000Z.snap 1100
notes.txt 5
"""
NIGHT = datetime.datetime(2026, 11, 25, 20, tzinfo=datetime.UTC)


def names(snapshots: list[Snapshot]) -> list[str]:
    return [each.name for each in snapshots]


def test_both_files_of_a_run_are_one_snapshot() -> None:
    found = read(LISTED)
    assert names(found) == ["20261125T060000Z", "20261125T120000Z", "20261125T180000Z"]
    assert found[1].size_bytes == {"consul": 1000, "nomad": 2000}
    assert found[1].taken == datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC)
    assert [each.complete for each in found] == [True, True, False]
    assert read("") == []


def test_the_newest_complete_one_is_restored_or_the_one_named() -> None:
    found = read(LISTED)
    assert chosen(found, None, "hosts").name == "20261125T120000Z"
    assert chosen(found, "20261125T060000Z", "hosts") == found[0]


@pytest.mark.parametrize("name", ["20261125T180000Z", "yesterday"])
def test_one_that_is_incomplete_or_unknown_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(CliError) as refused:
        chosen(read(LISTED), name, "hosts")
    assert refused.value.fix == "use one of: 20261125T060000Z, 20261125T120000Z"


def test_without_any_the_way_to_bring_one_is_named() -> None:
    with pytest.raises(CliError) as refused:
        chosen([], None, "hosts")
    assert "has no complete snapshot" in refused.value.message
    assert "restore.md" in refused.value.fix


def test_the_document_has_the_newest_first_and_follows_its_schema() -> None:
    plan = platform_plan()
    pool = plan.pools[0]
    (host, *_) = pool.hosts
    taken = SnapshotPlan(pool=pool.name, node=host.name, address=host.address, every_h=6, keep=5)
    shown = document(dataclasses.replace(plan, snapshots=taken), read(LISTED), NIGHT)
    jsonschema.validate(shown, SCHEMA)
    assert [each["age_s"] for each in shown["snapshots"]] == [7200, 28_800, 50_400]
    assert shown["snapshots"][0]["size_bytes"] == {"consul": 1100, "nomad": None}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-2, "0 s"), (59, "59 s"), (3599, "59 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: int, shown: str) -> None:
    assert age(seconds) == shown
