"""The documents of a check: schemas, the catalog's thresholds, and values that are refused."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fabric.document import read_check
from fabric.tools import OF_HOSTS, OF_PAIRS
from jsonschema import Draft202012Validator, ValidationError
from program.errors import InputError
from recordings import recordings

from catalog import CATALOG, ROOT, entry, thresholds

PROGRAM = Path(__file__).parents[1] / "fabric_check.py"
KINDS = ("infiniband", "roce", "efa", "tcp")


def schema(name: str) -> Draft202012Validator:
    document = json.loads((ROOT / f"schemas/{name}.schema.json").read_text())
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


CHECK, REPORT = schema("fabric-check"), schema("fabric-report")


def document(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "schema_version": 1,
        "planned": {"kind": "infiniband", "devices": ["mlx5_0"], "rate_gbit_per_s": 400},
        "thresholds": thresholds("infiniband"),
        "hosts": [{"name": "one", "outputs": []}, {"name": "two", "outputs": []}],
    }
    for key, value in changes.items():
        place, _, name = key.partition("__")
        if name:
            made[place][name] = value
        else:
            made[place] = value
    return made


def ran(action: str, value: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SLIPWAY_DOCUMENT": json.dumps(value)}
    command = [sys.executable, str(PROGRAM), action]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_documents_and_reports_of_all_recordings_follow_their_schemas() -> None:
    for recording in recordings():
        CHECK.validate(recording.document())
    first = next(iter(recordings())).document()
    done = ran("judge", first)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    REPORT.validate(report)
    assert report["verdict"] == report["hosts"]["one"] == "gap"  # the other tools did not run


def test_a_report_without_a_fix_for_a_failure_is_refused_by_its_schema() -> None:
    report = json.loads(ran("judge", document()).stdout)
    REPORT.validate(report)
    broken = copy.deepcopy(report)
    broken["findings"][0]["fix"] = ""
    with pytest.raises(ValidationError):
        REPORT.validate(broken)


def test_pairs_are_those_of_hosts_that_hold_nothing() -> None:
    three = [{"name": name, "outputs": []} for name in ("one", "two", "three")]
    done = ran("pairs", document(hosts=three, busy=["three"]))
    assert json.loads(done.stdout) == [[["one", "two"]]]


def test_the_schema_knows_the_tools_that_the_service_knows() -> None:
    properties = CHECK.schema["properties"]
    hosts = properties["hosts"]["items"]["properties"]["outputs"]["items"]["properties"]["tool"]
    pairs = properties["pairs"]["items"]["properties"]["outputs"]["items"]["properties"]["tool"]
    assert hosts["enum"] == sorted(OF_HOSTS)
    assert pairs["enum"] == sorted(OF_PAIRS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_catalogs_thresholds_are_accepted_for_every_kind(kind: str) -> None:
    value = document(thresholds=thresholds(kind))
    value["planned"] |= {"kind": kind, "interface": "eth0"}
    CHECK.validate(value)
    read_check(value)


def test_the_catalog_has_source_date_and_confidence_for_each_and_no_more_than_the_line() -> None:
    links = [each for kind in CATALOG["links"].values() for each in kind.values()]
    rows = [*links, *CATALOG["all_reduce"].values()]
    assert all(each["source"] and each["date"] for each in rows)
    assert {each["confidence"] for each in rows} <= {"documented", "derived", "unverified"}
    for gbit in (100, 200, 400):
        wanted = entry(CATALOG["all_reduce"][f"rails-{gbit}g"], "bus_gbyte_per_s")
        value = document(
            planned__rate_gbit_per_s=gbit, thresholds__all_reduce_bus_gbyte_per_s=wanted
        )
        CHECK.validate(value)
        read_check(value)


def limit(value: float, **others: Any) -> dict[str, Any]:
    return {"value": value, "source": "a test", "date": "2026-11-29", **others}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"thresholds__bandwidth_share": limit(1.1)},
            "bandwidth_share: 1.1 is above",
        ),
        ({"thresholds__rail_share": limit(1.01)}, "rail_share: 1.01 is above the line rate"),
        (
            {"thresholds__all_reduce_bus_gbyte_per_s": limit(51)},
            "all_reduce_bus_gbyte_per_s: 51 is above the line rate of all rails, 50 GB/s",
        ),
        ({"thresholds__latency_us": limit(0)}, "latency_us: 0.* is not above 0"),
        ({"thresholds__latency_us": limit(2, source="")}, "latency_us: has no source"),
        (
            {"thresholds__latency_us": limit(2, date="lately")},
            "latency_us: .* or no date",
        ),
        ({"thresholds__hope": limit(1)}, "thresholds.hope: is unknown"),
        ({"planned__kind": "token-ring"}, "planned.kind: 'token-ring' is unknown"),
        ({"planned__rate_gbit_per_s": -1}, "planned.rate_gbit_per_s: -1 is not above 0"),
        ({"planned__devices": []}, "planned.devices: is empty"),
        ({"planned": {"kind": "tcp", "rate_gbit_per_s": 10}}, "planned.interface: is missing"),
        ({"thresholds": {}}, "does not follow schemas/fabric-check.schema.json"),
        (
            {"hosts": [{"name": "one", "outputs": [{"tool": "ib_write_bw", "text": ""}]}]},
            "'ib_write_bw' is unknown here",
        ),
    ],
)
def test_impossible_values_are_refused_with_their_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_check(document(**changes))


def test_a_refused_document_ends_the_program_with_2() -> None:
    done = ran("judge", document(thresholds__bandwidth_share=limit(2)))
    assert (done.returncode, done.stdout) == (2, "")
    assert "thresholds.bandwidth_share: 2 is above the line rate; use at most 1" in done.stderr
