"""What Nomad is told of hosts, and whom it is told to let measure; Nomad is a fake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from admission.keeper import MEASURING_S, Keeper
from admission.turns import RETRY_S
from fabric.pool import Pool
from fabric.requests import REQUEST, read_request
from jsonschema import Draft202012Validator
from program.http_json import ApiError
from reports import DOWN, pair, pool, report

from catalog import ROOT

RATED = {"kind": "tcp", "interface": "eth0", "rate_gbit_per_s": 10.0}


class FakeNomad:
    """A node for each report, by the host's name, which is also the ID of node and allocation."""

    def __init__(self, **reports: Any) -> None:
        self.reports = reports
        self.metadata: dict[str, dict[str, str]] = {host: {} for host in reports}
        self.members: set[str] = set()
        self.writes = 0
        self.away: set[str] = set()  # these take no metadata

    def get(self, path: str) -> Any:
        if path == "/v1/job/fabric-check-cpu/allocations":
            return [
                {"ID": host, "NodeID": host, "ClientStatus": "running"} for host in self.reports
            ]
        if found := re.match(r"/v1/client/fs/cat/(\w+)\?path=alloc/fabric.json$", path):
            if self.reports[found[1]] is None:
                raise ApiError("no such file", 404)
            return self.reports[found[1]]
        if path == "/v1/jobs?meta=true":
            return [{"ID": "model-a", "Meta": {"slipway_members": "2"}}, {"ID": "envoy"}]
        if found := re.match(r"/v1/node/(\w+)/allocations$", path):
            jobs = ["envoy", *(["model-a"] if found[1] in self.members else [])]
            return [{"JobID": job, "ClientStatus": "running"} for job in jobs]
        host = path.removeprefix("/v1/node/")
        return {"ID": host, "Name": host, "Meta": dict(self.metadata[host])}

    def post(self, path: str, body: Any) -> None:
        host = path.removeprefix("/v1/client/metadata?node_id=")
        if host in self.away:
            raise ApiError("no path to node", 500)
        self.metadata[host].update(body["Meta"])
        self.writes += 1

    def request(self, host: str) -> Any:
        return read_request(self.metadata[host])

    def admitted(self) -> dict[str, str | None]:
        return {host: each.get("fabric_members") for host, each in self.metadata.items()}


def keeper(nomad: Any, folder: Path, of: Pool, said: list[str] | None = None) -> Keeper:
    lines = said if said is not None else []
    return Keeper(nomad, [of], folder, lines.append, clock=lambda: 1_795_944_000.0)


def test_nomad_is_told_once_and_a_host_without_a_report_is_left_alone(tmp_path: Path) -> None:
    nomad = FakeNomad(one=report(), two=report(link=DOWN), three=None)
    said: list[str] = []
    kept = keeper(nomad, tmp_path, pool(), said)
    kept.look()
    kept.look()
    assert nomad.admitted() == {"one": "yes", "two": "no", "three": None}
    assert nomad.metadata["two"]["fabric"] == "failed"
    assert nomad.writes == 2
    assert said == [
        "one of cpu: passed, takes members",
        "two of cpu: failed, takes no members: eth0: is down",
    ]
    found = json.loads((tmp_path / "fabric-cpu.json").read_text())
    schema = json.loads((ROOT / "schemas/fabric-report.schema.json").read_text())
    Draft202012Validator(schema).validate(found)
    assert found["hosts"] == {"one": "pass", "two": "fail"}


def test_a_host_that_comes_back_takes_members_and_one_that_went_has_no_figure(
    tmp_path: Path,
) -> None:
    nomad = FakeNomad(one=report(link=DOWN), two=report())
    kept = keeper(nomad, tmp_path, pool())
    kept.look()
    nomad.reports = {"one": report()}
    kept.look()
    assert nomad.admitted()["one"] == "yes"
    assert set(kept.known) == {("cpu", "one")}


def test_two_hosts_without_members_are_asked_to_measure_and_wait_for_it(tmp_path: Path) -> None:
    one, two, busy = (
        report(address="10.0.0.1"),
        report(address="10.0.0.2", port=7, key="b"),
        report(),
    )
    nomad = FakeNomad(one=one, two=two, busy=busy)
    nomad.members = {"busy"}
    kept = keeper(nomad, tmp_path, pool(measures=True, planned={"kind": "tcp"}))
    kept.look()
    assert nomad.admitted() == {"one": "no", "two": "no", "busy": "yes"}
    measures, listens = nomad.request("one"), nomad.request("two")
    assert (measures.role, measures.peer, measures.address, measures.port) == (
        "measure", "two", "10.0.0.2", 7,
    )  # fmt: skip
    assert (listens.role, listens.peer, listens.address) == ("listen", "one", "10.0.0.1")
    assert measures.id == listens.id
    assert (measures.peer_key, listens.peer_key) == ("b", "a")
    assert REQUEST not in nomad.metadata["busy"]

    kept.look()  # they measure: nobody is asked again
    assert nomad.request("one") == measures
    nomad.reports["one"] = report(request=measures.id, pairs=(pair("two", 9.0),))
    nomad.reports["two"] = report(request=measures.id)
    kept.look()
    assert nomad.admitted() == {"one": "yes", "two": "yes", "busy": "yes"}


def test_a_measurement_of_which_nobody_reports_is_given_up(tmp_path: Path) -> None:
    nomad = FakeNomad(one=report(), two=report())
    kept = keeper(nomad, tmp_path, pool(measures=True))
    kept.look()
    first = nomad.request("one")
    assert first.until == kept.clock() + MEASURING_S
    kept.clock = lambda: first.until + 1
    kept.look()
    assert nomad.request("one") == first
    kept.clock = lambda: first.until + 1 + RETRY_S
    kept.look()
    assert nomad.request("one").id != first.id


def test_one_host_that_does_not_answer_holds_up_no_others(tmp_path: Path) -> None:
    nomad = FakeNomad(mute=report(), one=report(), two=report())
    kept = keeper(nomad, tmp_path, pool(measures=True))
    kept.look()
    first = nomad.request("mute")
    assert nomad.request("one").id == first.id
    nomad.reports["one"] = report(request=first.id)
    kept.clock = lambda: first.until + 1
    kept.look()
    assert nomad.request("mute") == first
    assert {nomad.request("one").peer, nomad.request("two").peer} == {"one", "two"}


def test_a_host_that_takes_no_metadata_holds_up_no_others(tmp_path: Path) -> None:
    nomad = FakeNomad(one=report(), two=report(link=DOWN))
    nomad.away = {"one"}
    said: list[str] = []
    keeper(nomad, tmp_path, pool(), said).look()
    assert nomad.admitted() == {"one": None, "two": "no"}
    assert said[0] == "one of cpu: no path to node"
    assert json.loads((tmp_path / "fabric-cpu.json").read_text())["hosts"]["two"] == "fail"


def test_a_host_that_cannot_be_asked_to_measure_holds_up_no_others(tmp_path: Path) -> None:
    nomad = FakeNomad(one=report(), two=report(), three=report())
    nomad.members = {"three"}
    nomad.away = {"two"}
    keeper(nomad, tmp_path, pool(measures=True)).look()
    assert nomad.admitted() == {"one": "no", "two": None, "three": "yes"}


UNKNOWN_TOOL = {"tool": "rootkit", "text": "", "exit_code": 0}
NO_TEXT = {"tool": "ip_link", "text": 5, "exit_code": 0}


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ([], "TypeError"),
        (None, "TypeError"),
        ({"schema_version": 1}, "KeyError: 'key'"),
        (report(outputs=[UNKNOWN_TOOL]), "the tool 'rootkit' is unknown here"),
        (report(outputs=[NO_TEXT]), "the output of ip_link is no text"),
        (report(outputs="ibstat"), "outputs is no list"),
        (report(pairs=({**pair("two", 9.0), "at": "now"},)), "ValueError"),
        (report(pairs=(pair("one", 9.0),)), "pairs has no other host: 'one'"),
    ],
)
def test_a_forged_report_is_none_and_holds_up_no_others(
    forged: Any, said: str, tmp_path: Path
) -> None:
    nomad = FakeNomad(one=report(), two=report())
    get = nomad.get

    def forging(path: str) -> Any:
        return forged if path.startswith("/v1/client/fs/cat/one?") else get(path)

    nomad.get = forging  # type: ignore[method-assign]
    lines: list[str] = []
    kept = keeper(nomad, tmp_path, pool(), lines)
    kept.look()
    kept.look()
    assert nomad.admitted() == {"one": None, "two": "yes"}
    (line,) = [each for each in lines if each.startswith("one")]
    assert line.startswith(f"one of cpu: its report is left out: {said}")


def test_a_pool_that_cannot_be_judged_holds_up_no_others(tmp_path: Path) -> None:
    nomad = FakeNomad(one=report())
    kept = keeper(nomad, tmp_path, pool())

    def get(path: str) -> Any:
        if "fabric-check-away" in path:
            raise ApiError("no leader", 500)
        return FakeNomad.get(nomad, path)

    nomad.get = get  # type: ignore[method-assign]
    kept.pools.insert(0, pool(name="away", job="fabric-check-away"))
    kept.look()
    assert nomad.admitted() == {"one": "yes"}


def test_every_host_waits_for_its_own_measurement(tmp_path: Path) -> None:
    hosts = ("four", "one", "three", "two")
    nomad = FakeNomad(**{host: report() for host in hosts})
    kept = keeper(nomad, tmp_path, pool(measures=True))
    kept.look()
    assert nomad.admitted() == dict.fromkeys(hosts, "no")
    turn = nomad.request("four")
    assert (turn.role, turn.peer) == ("measure", "one")
    nomad.reports["four"] = report(request=turn.id, pairs=(pair("one", 9.0),))
    nomad.reports["one"] = report(request=turn.id)
    kept.look()
    assert nomad.admitted() == {"four": "yes", "one": "yes", "three": "no", "two": "no"}


def test_a_host_without_an_address_is_not_asked_to_measure(tmp_path: Path) -> None:
    nomad = FakeNomad(none=report(address=""), one=report(), two=report())
    keeper(nomad, tmp_path, pool(measures=True)).look()
    assert nomad.request("none") is None
    assert nomad.request("one").peer == "two"
