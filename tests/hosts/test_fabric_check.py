"""Hosts are checked before they take members of groups: a slow link keeps members off until a check
passes. The links are limited for real, by the kernel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hosts.bed import NETWORK, Bed, first_process
from tests.hosts.environment import NAME, Checkout, environment, listed
from tests.live.environments import SIMULATED_ENGINE
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

SERVER, EDGE = f"{NETWORK}.11", f"{NETWORK}.31"
WORKERS = {f"worker-{k}": f"{NETWORK}.4{1 + k}" for k in range(4)}
NOMAD = f"https://{SERVER}:4646"
MEMBERS = 2
RATE_GBIT, LEAST_SHARE, LIMIT_GBIT = 10, 0.02, 0.05
LEAST_GBIT = RATE_GBIT * LEAST_SHARE
POOLS = {
    "cpu": {
        "kind": "metal",
        "hosts": listed(WORKERS),
        "memory": "2GiB",
        "cpu": 2,
        "network_gbps": RATE_GBIT,
        "fabric": {
            "kind": "tcp",
            "allow_tcp": True,
            # What a busy machine takes for a round trip is not what is tested.
            "check": {"bandwidth_share": LEAST_SHARE, "latency_us": 1e6, "jitter_us": 1e6},
        },
    },
    "edge": {"kind": "metal", "hosts": listed({"edge-0": EDGE}), "memory": "4GiB", "cpu": 2},
}
SETTINGS: Mapping[str, Any] = {
    "pools": POOLS,
    "gateway": {"pool": "edge"},
    "autoscaling": {"evaluation_interval_s": 3600},  # the test decides the count
}


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {"server-0": SERVER, **WORKERS, "edge-0": EDGE}


@pytest.fixture(scope="module")
def checkout(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 1, "max": 2}}
    with environment(hosts, tmp_path_factory, models=models, settings=SETTINGS) as made:
        model = {"name": "sim-a", "parallel": {"pipeline": MEMBERS}, "engine": SIMULATED_ENGINE}
        (made.folder / "models/sim-a.yaml").write_text(yaml.safe_dump(model))
        made.slipway("up")
        yield made


def members(checkout: Checkout) -> set[str]:
    """The hosts with a member that runs."""
    return {
        each["NodeName"]
        for each in checkout.ask(f"{NOMAD}/v1/allocations")
        if each["JobID"].startswith("model-sim-a-") and each["ClientStatus"] == "running"
    }


def metadata(checkout: Checkout, host: str) -> dict[str, str]:
    (node,) = (each for each in checkout.ask(f"{NOMAD}/v1/nodes") if each["Name"] == host)
    found: dict[str, str] = checkout.ask(f"{NOMAD}/v1/node/{node['ID']}")["Meta"]
    return found


def admitted(checkout: Checkout) -> set[str]:
    return {host for host in WORKERS if metadata(checkout, host).get("fabric_members") == "yes"}


def waits(checkout: Checkout) -> bool:
    """Whether Nomad would place members, and knows no host that may take them."""
    return any(
        each["Status"] == "blocked" and "${meta.fabric_members} = yes" in json.dumps(each)
        for each in checkout.ask(f"{NOMAD}/v1/evaluations")
        if each["JobID"].startswith("model-sim-a-")
    )


@contextmanager
def limited(host: Path, rate_gbit: float) -> Iterator[None]:
    """What the host with this network namespace sends."""

    def tc(action: str, *limit: str) -> None:
        command = ("tc", "qdisc", action, "dev", "eth0", "root", *limit)
        subprocess.run(["nsenter", f"--net={host}", *command], check=True)

    rate = f"{round(rate_gbit * 1000)}mbit"
    tc("add", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms")
    try:
        yield
    finally:
        tc("del")


def check(checkout: Checkout, *named: str) -> tuple[int, dict[str, Any]]:
    done = checkout.slipway("check", *named, "--json", check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def rates(document: dict[str, Any], *hosts: str) -> tuple[float, float]:
    """In Gbit/s, to the second host and back."""
    there, back = (
        each["figure"]
        for each in document["findings"]
        if each["check"] == "bandwidth" and (each["host"], each["peer"]) == hosts
    )
    return there, back


def test_members_are_placed_once_their_hosts_have_been_checked(checkout: Checkout) -> None:
    assert len(members(checkout)) == MEMBERS
    # The others have their turn to measure after those two.
    until(lambda: admitted(checkout) == set(WORKERS), "hosts that have all measured")
    job = next(
        each for each in checkout.ask(f"{NOMAD}/v1/jobs") if each["ID"].startswith("model-sim-a")
    )
    (group,) = checkout.ask(f"{NOMAD}/v1/job/{job['ID']}")["TaskGroups"]
    wanted = {each["LTarget"]: each["RTarget"] for each in group["Constraints"]}
    assert wanted["${meta.fabric_members}"] == "yes"


def test_a_host_that_holds_a_member_is_busy(checkout: Checkout) -> None:
    busy = min(members(checkout))
    free = min(set(WORKERS) - members(checkout))
    done = checkout.slipway("check", free, busy, check=False)
    assert done.returncode == 1
    assert f"{busy} is busy: it holds model-sim-a-" in done.stderr
    code, found = check(checkout, busy)  # by itself it can be checked
    assert (code, found["hosts"][0]["takes_members"]) == (0, True)


def test_a_slow_link_is_named_and_keeps_members_off_until_a_check_passes(
    checkout: Checkout, hosts: Bed
) -> None:
    one, two = sorted(set(WORKERS) - members(checkout))
    code, free = check(checkout, one, two)
    assert code == 0, free
    assert min(rates(free, one, two)) > LEAST_GBIT

    slow = Path(f"/proc/{first_process(hosts.hosts[two].process)}/ns/net")
    with limited(slow, LIMIT_GBIT):
        code, found = check(checkout, one, two)
        assert code == 1
        there, back = rates(found, one, two)
        assert there > LEAST_GBIT  # only what the second host sends is limited
        assert back == pytest.approx(LIMIT_GBIT, rel=0.15)
        for row in found["hosts"]:
            assert (row["verdict"], row["takes_members"]) == ("failed", False)
            assert row["figure"] == pytest.approx(LIMIT_GBIT, rel=0.15)
            assert row["threshold"] == pytest.approx(LEAST_GBIT)
            assert f"at least {LEAST_GBIT:g}" in row["reason"]

    # The limit is gone, but nobody has measured since.
    assert admitted(checkout) == set(WORKERS) - {one, two}
    shown = [
        each
        for each in json.loads(checkout.slipway("hosts", "--json").stdout)["troubles"]
        if each["what"].startswith("takes no members of groups until the check")
    ]
    assert {each["host"] for each in shown} == {one, two}
    assert all(f"slipway check {each['host']} -s {NAME}" in each["fix"] for each in shown)
    assert one in checkout.slipway("status").stdout
    job = next(
        each["ID"]
        for each in checkout.ask(f"{NOMAD}/v1/jobs")
        if each["ID"].startswith("model-sim-a-")
    )
    before = members(checkout)
    checkout.post_to(
        f"{NOMAD}/v1/job/{job}/scale", {"Count": 2 * MEMBERS, "Target": {"Group": "replica"}}
    )
    until(lambda: waits(checkout), "members that wait for a host")
    code, alone = check(checkout, one)  # by itself it has passed all along
    assert (code, alone["hosts"][0]["verdict"]) == (1, "failed")
    assert members(checkout) == before

    code, passed = check(checkout, one, two)
    assert code == 0, passed
    until(lambda: members(checkout) == set(WORKERS), "a second group")
