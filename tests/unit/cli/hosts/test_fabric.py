"""`slipway check`: what hosts are asked, what is refused, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import jsonschema
import pytest
from referencing import Registry, Resource

from cli.errors import FAILED, WRONG_INPUT, CliError
from cli.hosts import fabric
from cli.views.check_table import check_table
from components.fabric.metadata import DETAILS, HOST_REPORT, REQUEST
from slipway.plan.platform import PlatformPlan
from tests.components.test_fabric_checks import ROOT, planned
from tests.unit.cli.views.figures import shown

POOLS = {"worker-0": "cpu", "worker-1": "cpu", "edge-0": "edge"}
SLOW = {
    "host": "worker-0",
    "peer": "worker-1",
    "check": "bandwidth",
    "subject": "eth0",
    "verdict": "fail",
    "figure": 0.05,
    "threshold": 8.0,
    "unit": "Gbit/s",
    "reason": "eth0: TCP 0.05 Gbit/s, at least 8",
    "fix": "look at the cable",
}
OF_ANOTHER = {**SLOW, "host": "worker-7", "peer": None}


class FakeNomad:
    """Nodes and allocations have the names of hosts. A host that is asked answers at once."""

    def __init__(self, *, member: str = "", verdict: str = "passed") -> None:
        self.member, self.verdict = member, verdict
        self.checked = {"worker-0", "worker-1"}
        self.address = "10.77.0.41"
        self.asked: dict[str, Any] = {}

    def node_named(self, name: str) -> dict[str, Any] | None:
        return {"ID": name, "NodePool": POOLS[name]} if name in POOLS else None

    def allocations_of(self, job: str) -> list[dict[str, Any]]:
        hosts = ["keeper"] if job == "fabric-admission" else sorted(self.checked)
        return [{"ID": host, "NodeID": host, "ClientStatus": "running"} for host in hosts]

    def jobs(self) -> list[dict[str, Any]]:
        return [{"ID": "model-a", "Meta": {"slipway_members": "2"}}, {"ID": "envoy", "Meta": None}]

    def allocations_on(self, node: str) -> list[dict[str, Any]]:
        job, status = "model-a", "running" if node == self.member else "complete"
        return [
            {"JobID": job, "Name": "model-a.replica[1]", "ClientStatus": status},
            {"JobID": "envoy", "Name": "envoy.envoy[0]", "ClientStatus": "running"},
        ]

    def file(self, allocation: str, path: str) -> str:
        if allocation == "keeper":
            assert path == "alloc/fabric-cpu.json"
            return json.dumps({"findings": [SLOW, OF_ANOTHER]})
        assert path == HOST_REPORT
        return json.dumps({"interface": "eth0", "address": self.address, "port": 7, "key": "a"})

    def set_metadata(self, node: str, metadata: Mapping[str, str]) -> None:
        self.asked[node] = json.loads(metadata[REQUEST])

    def node(self, node: str) -> dict[str, Any]:
        failed = self.verdict == "failed"
        details = {
            "reason": SLOW["reason"] if failed else "",
            "fix": SLOW["fix"] if failed else "",
            "peer": "worker-1" if failed else "",
            "figure": 0.05 if failed else None,
            "threshold": 8.0 if failed else None,
            "unit": "Gbit/s" if failed else "",
            "check": "bandwidth",
            "measured": "",
            "request": self.asked[node]["id"],
        }
        members = "no" if failed else "yes"
        meta = {"fabric": self.verdict, "fabric_members": members, DETAILS: json.dumps(details)}
        return {"Meta": meta}


@pytest.fixture(scope="module")
def plan() -> PlatformPlan:
    return planned(fabric={"kind": "tcp", "allow_tcp": True})


def checked(nomad: FakeNomad, plan: PlatformPlan, *names: str) -> dict[str, Any]:
    of: Any = nomad
    found = fabric.check(of, plan, names)
    schemas = {
        f"{name}.schema.json": json.loads((ROOT / f"schemas/{name}.schema.json").read_text())
        for name in ("check", "fabric-report")
    }
    registry: Any = Registry().with_resources(
        [(name, Resource.from_contents(each)) for name, each in schemas.items()]
    )
    validator = jsonschema.Draft202012Validator(schemas["check.schema.json"], registry=registry)
    validator.validate(found)
    return found


def refusal(nomad: FakeNomad, plan: PlatformPlan, *names: str) -> CliError:
    with pytest.raises(CliError) as error:
        checked(nomad, plan, *names)
    assert nomad.asked == {}
    return error.value


def test_one_host_is_asked_to_check_itself(plan: PlatformPlan) -> None:
    nomad = FakeNomad(member="worker-0")  # it can be checked nevertheless
    found = checked(nomad, plan, "worker-0")
    assert [each["role"] for each in nomad.asked.values()] == ["check"]
    (host,) = found["hosts"]
    assert (host["verdict"], host["takes_members"], host["reason"]) == ("passed", True, "")
    assert found["findings"] == [SLOW]
    assert "worker-0 passed: it takes members" in shown(check_table(found), 120)


def test_of_two_hosts_the_first_measures_and_the_second_listens(plan: PlatformPlan) -> None:
    nomad = FakeNomad(verdict="failed")
    found = checked(nomad, plan, "worker-1", "worker-0")
    first, second = nomad.asked["worker-1"], nomad.asked["worker-0"]
    assert first["id"] == second["id"]
    assert (first["role"], first["peer"], first["port"]) == ("measure", "worker-0", 7)
    assert first["peer_key"] == "a"  # without it the measurement would not count
    assert (second["role"], second["peer"]) == ("listen", "worker-1")
    assert [each["name"] for each in found["hosts"]] == ["worker-1", "worker-0"]
    text = shown(check_table(found), 160)
    assert "takes no members: eth0: TCP 0.05 Gbit/s, at least 8" in text
    assert "fix: look at the cable" in text


def test_a_host_that_holds_a_member_is_not_measured(plan: PlatformPlan) -> None:
    error = refusal(FakeNomad(member="worker-1"), plan, "worker-0", "worker-1")
    assert error.message.startswith("worker-1 is busy: it holds model-a.replica[1]")
    assert error.exit_code == FAILED


@pytest.mark.parametrize(
    ("names", "message", "fix"),
    [
        (("edge-0",), "no model takes several hosts of pool edge", "name a host of pool cpu"),
        (("worker-0", "edge-0"), "edge-0 is not checked", "pool cpu"),
        (("worker-0", "worker-0"), "worker-0 cannot be measured with itself", "name two"),
        (("server-0",), "server-0 is a server", "name a node"),
        (("worker-9",), 'has no host "worker-9"', "worker-0"),
    ],
)
def test_wrong_names_are_refused(
    plan: PlatformPlan, names: tuple[str, ...], message: str, fix: str
) -> None:
    error = refusal(FakeNomad(), plan, *names)
    assert message in error.message
    assert fix in error.fix
    assert error.exit_code == WRONG_INPUT


def test_a_host_whose_check_does_not_run_is_named(plan: PlatformPlan) -> None:
    nomad = FakeNomad()
    nomad.checked = {"worker-1"}
    assert refusal(nomad, plan, "worker-0").message.startswith("worker-0 has no check that runs")


def test_a_host_without_an_address_on_the_fabric_is_not_measured(plan: PlatformPlan) -> None:
    nomad = FakeNomad()
    nomad.address = ""
    error = refusal(nomad, plan, "worker-0", "worker-1")
    assert error.message == "worker-0 has no address on eth0, the fabric's interface"


def test_a_host_that_does_not_answer_keeps_its_verdict(
    plan: PlatformPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    nomad = FakeNomad()
    monkeypatch.setattr(fabric, "ANSWERS_S", 0.0)
    monkeypatch.setattr(nomad, "node", lambda _: {"Meta": {}})
    of: Any = nomad
    with pytest.raises(CliError, match="nothing was heard of worker-0"):
        fabric.check(of, plan, ["worker-0"])


def test_a_nomad_that_goes_away_is_an_error_with_its_reason(
    plan: PlatformPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    nomad = FakeNomad()

    def away() -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(nomad, "jobs", away)
    of: Any = nomad
    with pytest.raises(CliError, match="nothing was checked"):
        fabric.check(of, plan, ["worker-0", "worker-1"])
