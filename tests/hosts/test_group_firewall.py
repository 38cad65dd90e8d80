"""The ports of a group are closed to hosts outside its pool, on every interface, whatever happens
to the rules: a flushed table, the end of a host's power, and another host in the pool."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hosts.bed import FABRIC_INTERFACE, FABRIC_NETWORK, NETWORK, Bed, Host
from tests.hosts.environment import NAME, Checkout, environment, listed, must_complete, streams
from tests.hosts.groups import write_model
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

EDGE = f"{NETWORK}.31"
WORKERS = {"worker-0": f"{NETWORK}.21", "worker-1": f"{NETWORK}.22"}
OTHER = {"other-0": f"{NETWORK}.41"}  # in another pool
SPARE = {"spare-0": f"{NETWORK}.42"}  # in no pool at first
OUTSIDERS = (*OTHER, *SPARE)
FABRIC = {
    name: f"{FABRIC_NETWORK}.{address.rpartition('.')[2]}"
    for name, address in {**WORKERS, **OTHER, **SPARE}.items()
}
TABLE = f"slipway-{NAME}"
JOB, MASTER = "model-sim-a", "master"
FIRST_OF_KERNEL = 32768  # net.ipv4.ip_local_port_range of a new network namespace
OPERATORS_PORT = 18_500  # where a program of the operator's listens, which is none of ours
# As the master of a real engine does, and no simulated one: on every interface, at a port of the
# kernel's choice.
EVERYWHERE = """\
import signal, socket
listening = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
signal.pause()
"""
PROGRAM = Path(__file__).with_name("on_host_ports.py")


def pools(members: Mapping[str, str]) -> dict[str, Any]:
    def metal(hosts: Mapping[str, str]) -> dict[str, Any]:
        return {"kind": "metal", "hosts": listed(hosts), "memory": "2GiB", "cpu": 2}

    fabric = {
        "kind": "tcp",
        "allow_tcp": True,
        "control_interface": "eth0",
        "interfaces": [FABRIC_INTERFACE],
        "networks": [FABRIC[name] for name in members],
    }
    return {
        "cpu": {**metal(members), "fabric": fabric},
        "other": metal(OTHER),
        "edge": metal({"edge-0": EDGE}),
    }


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {"server-0": f"{NETWORK}.11", **WORKERS, **OTHER, **SPARE, "edge-0": EDGE}


@pytest.fixture(scope="module")
def fabric() -> Mapping[str, str]:
    return FABRIC


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    settings = {
        "pools": pools(WORKERS),
        "gateway": {"pool": "edge"},
        "autoscaling": {"evaluation_interval_s": 3600},
    }
    models = {"sim-a": {"min": 1, "max": 1}}
    with environment(hosts, tmp_path_factory, models=models, settings=settings) as made:
        write_model(made)
        made.slipway("up")
        for name in WORKERS:
            listen_everywhere(hosts, name)
        yield made


def listen_everywhere(hosts: Bed, name: str) -> None:
    """A task of the group, by its variables."""
    variables = f"-E NOMAD_JOB_ID={JOB}-0 -E NOMAD_TASK_NAME={MASTER}"
    hosts.hosts[name].ssh(
        f"systemd-run --unit={MASTER} {variables} python3 -c {shlex.quote(EVERYWHERE)}"
    )


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a process of a task can be reached from elsewhere, on one of its host's addresses."""

    task: str
    address: str  # IPv4, or IPv6 of the link: "fe80::1%eth0" as every host of the bed names it
    port: int

    @property
    def of_engine(self) -> bool:
        return self.port >= FIRST_OF_KERNEL


def run(host: Host, action: str, given: Any = None) -> Any:
    """What on_host_ports.py finds on the host."""
    program = f"python3 -B -c {shlex.quote(PROGRAM.read_text())} {action}"
    return json.loads(host.ssh(program, json.dumps(given)))


def scan(hosts: Bed, name: str) -> list[Listening]:
    """All of a host's that belong to tasks of the model."""
    return [Listening(**each) for each in run(hosts.hosts[name], "scan", JOB)]


def tried(hosts: Bed, name: str, found: list[Listening]) -> dict[Listening, str]:
    """What becomes of a connection from this host to each."""
    return on_each(hosts.hosts[name], "connect", found)


def asked(hosts: Bed, name: str, found: list[Listening]) -> dict[Listening, str]:
    """Whether each answers this host, which shows no certificate."""
    return on_each(hosts.hosts[name], "ask", found)


def on_each(host: Host, action: str, found: list[Listening]) -> dict[Listening, str]:
    outcomes = run(host, action, [(each.address, each.port) for each in found])
    return dict(zip(found, outcomes, strict=True))


def group_ports(hosts: Bed) -> dict[str, list[Listening]]:
    """Those of each member, once the engine of the first one listens: others do not for long."""

    def look() -> dict[str, list[Listening]]:
        found = {name: scan(hosts, name) for name in WORKERS}
        engines = [
            each for of in found.values() for each in of if each.of_engine and each.task != MASTER
        ]
        return found if engines else {}

    return until(look, "an engine")


def closed_to(hosts: Bed, outsiders: Iterable[str]) -> None:
    for member, found in group_ports(hosts).items():
        everywhere = {each.address for each in found if each.task == MASTER}
        assert everywhere > {WORKERS[member], FABRIC[member]}  # and those of IPv6
        ssh = [Listening(task="sshd", address=address, port=22) for address in everywhere]
        for outsider in outsiders:
            assert set(tried(hosts, outsider, ssh).values()) == {"connected"}
            outcomes = tried(hosts, outsider, found)
            refused = {each for each, outcome in outcomes.items() if outcome == "refused"}
            others = {each: outcome for each, outcome in outcomes.items() if each not in refused}
            assert {each for each in found if "%" not in each.address} <= refused, others
            # The kernel sends a refusal to an address of the link over any link.
            assert set(others.values()) <= {"dropped"}, (outsider, member, others)


def table(host: Host) -> str:
    return host.ssh(f"nft list table inet {TABLE} 2>/dev/null || true")


def test_no_port_of_a_group_is_open_to_a_host_outside_its_pool(
    hosts: Bed, checkout: Checkout
) -> None:
    must_complete(EDGE)
    closed_to(hosts, OUTSIDERS)


def test_what_is_not_ours_stays_open(hosts: Bed, checkout: Checkout) -> None:
    host = hosts.hosts["worker-0"]
    host.ssh(f"systemd-run --unit=operators-own python3 -m http.server {OPERATORS_PORT}")
    own = [
        Listening(task="sshd", address=WORKERS["worker-0"], port=22),
        Listening(task="operators-own", address=WORKERS["worker-0"], port=OPERATORS_PORT),
    ]
    until(lambda: set(tried(hosts, "spare-0", own).values()) == {"connected"}, "the own port")
    for name in ("other-0", "edge-0", "server-0"):
        assert hosts.hosts[name].ssh("nft list tables") == ""


def test_a_client_of_replicas_reaches_no_engine_and_is_asked_for_a_certificate(
    hosts: Bed, checkout: Checkout
) -> None:
    for member, listening in group_ports(hosts).items():
        found = [each for each in listening if each.address == WORKERS[member]]
        engines = [each for each in found if each.of_engine]
        assert set(tried(hosts, "edge-0", engines).values()) == {"refused"}
        others = [each for each in found if not each.of_engine]
        assert set(asked(hosts, "edge-0", others).values()) == {"silent"}


def test_members_reach_each_other_and_streams_complete(hosts: Bed, checkout: Checkout) -> None:
    for member, other in (("worker-0", "worker-1"), ("worker-1", "worker-0")):
        found = [each for each in group_ports(hosts)[member] if "%" not in each.address]
        assert set(tried(hosts, other, found).values()) == {"connected"}
    with streams(EDGE) as streamed:
        until(lambda: len(streamed.ended) >= 8)
    assert streamed.failed == []


def test_rules_that_somebody_flushes_are_there_again(hosts: Bed, checkout: Checkout) -> None:
    host = hosts.hosts["worker-0"]
    before = table(host)
    host.ssh("nft flush ruleset")
    until(lambda: table(host) == before, "the table")
    closed_to(hosts, OUTSIDERS)


def test_a_host_whose_power_was_cut_has_its_rules_before_its_members(
    hosts: Bed, checkout: Checkout
) -> None:
    before = table(hosts.hosts["worker-1"])
    hosts.hosts["worker-1"].end()
    hosts.wait_for(hosts.start("worker-1", same_disk=True))
    listen_everywhere(hosts, "worker-1")
    until(lambda: [each for each in scan(hosts, "worker-1") if each.task != MASTER], "a task")
    assert table(hosts.hosts["worker-1"]) == before
    until(complete, "the group")
    closed_to(hosts, OUTSIDERS)


def test_a_host_that_joins_the_pool_is_let_in_and_closed_to_others(
    hosts: Bed, checkout: Checkout
) -> None:
    checkout.put("pools", pools({**WORKERS, **SPARE}))
    checkout.slipway("up")
    until(complete, "the group")
    for name in WORKERS:
        found = [each for each in scan(hosts, name) if "%" not in each.address]
        assert found
        assert set(tried(hosts, "spare-0", found).values()) == {"connected"}
    assert table(hosts.hosts["spare-0"]) == table(hosts.hosts["worker-0"])
    closed_to(hosts, OTHER)


def test_rules_go_with_the_environment(hosts: Bed, checkout: Checkout) -> None:
    checkout.slipway("unprotect")
    checkout.slipway("down", "--yes")
    for name in (*WORKERS, *SPARE):
        host = hosts.hosts[name]
        assert host.ssh("nft list tables") == ""
        assert host.ssh("ls /etc/systemd/system | grep -c slipway || true").strip() == "0"


def complete() -> bool:
    try:
        must_complete(EDGE)
    except httpx.HTTPError:
        return False
    return True
