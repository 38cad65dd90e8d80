"""Elastic nodes: hosts of the bed boot from rendered user data, and join without `up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.aws_cloud import FIXED, Cloud, aws_environment, cloud_of, use_cloud
from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import NAME, Checkout, must_complete
from tests.waiting import until

pytestmark = pytest.mark.hosts

INSTANCES = {f"i-{k}": f"{NETWORK}.{201 + k}" for k in range(3)}
EDGE = FIXED["edge-0"]
NOMAD = f"https://{FIXED['server-0']}:4646"
CPU = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": {"min": 3, "max": 5}}
JOIN_S = 600


def instance_of(number: int) -> str:
    return f"i-{number:017x}"


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**FIXED, **INSTANCES}


@pytest.fixture(scope="module")
def cloud(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_of(hosts, tmp_path_factory.mktemp("cloud")) as made:
        made.describe(hosts.hosts["edge-0"], "i-0000000000000edge", "")
        use_cloud(hosts.hosts["edge-0"])
        yield made


@pytest.fixture(scope="module")
def checkout(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 3, "max": 3}}
    with aws_environment(cloud, tmp_path_factory, pools={"cpu": CPU}, models=models) as made:
        yield made


def ready_nodes(checkout: Checkout) -> set[str]:
    listed: list[dict[str, Any]] = checkout.ask(f"{NOMAD}/v1/nodes")
    found = [node for node in listed if node["NodePool"] == "cpu"]
    return {node["Name"] for node in found if node["Status"] == "ready"}


def test_three_instances_serve_through_envoy_by_their_user_data_alone(
    checkout: Checkout, cloud: Cloud, hosts: Bed
) -> None:
    with checkout.running("up") as up:
        cloud.user_data("cpu")
        for number, name in enumerate(INSTANCES):
            cloud.boot(hosts.hosts[name], "cpu", instance_of(number))
        said, _ = up.communicate(timeout=900)
        assert up.returncode == 0, said[-6000:]
    assert ready_nodes(checkout) == {f"cpu-{number:017x}" for number in range(3)}
    must_complete(EDGE)


def test_the_next_preview_is_empty(checkout: Checkout) -> None:
    done = checkout.slipway("preview", "--json")
    steps = json.loads(done.stdout)["steps"]
    assert {step["op"] for step in steps} <= {"same", "read", "refresh"}


def test_a_node_is_known_by_name_everywhere(checkout: Checkout, hosts: Bed) -> None:
    consul = f"https://{FIXED['server-0']}:8501"
    members = {each["Node"]: each["Address"] for each in checkout.ask(f"{consul}/v1/catalog/nodes")}
    for number, address in enumerate(INSTANCES.values()):
        assert members[f"cpu-{number:017x}"] == address


def test_prometheus_reads_every_agent_and_every_replica(checkout: Checkout) -> None:
    def down() -> list[str]:
        done = checkout.slipway("status", "--json", check=False)
        return [] if done.returncode == 0 else [done.stdout[-500:]]

    until(lambda: not down())


def test_an_instance_joins_again_after_a_reboot_without_an_introduction(
    checkout: Checkout, cloud: Cloud, hosts: Bed
) -> None:
    host = hosts.hosts["i-0"]
    log = "journalctl -u slipway-boot.service -o cat"
    before = host.ssh(log).count("introduced as")
    host.ssh("systemctl restart slipway-boot.service")
    assert host.ssh(log).count("introduced as") == before
    assert f"cpu-{0:017x}" in ready_nodes(checkout)


def test_nothing_secret_is_in_user_data_or_on_the_host_beside_its_agents(
    checkout: Checkout, cloud: Cloud, hosts: Bed
) -> None:
    assert "PRIVATE KEY" not in cloud.user_data("cpu")
    found = hosts.hosts["i-0"].ssh(
        "grep -rl 'PRIVATE KEY' /etc /usr/local /var/lib /run --include='*' 2>/dev/null || true"
    )
    agents = [f"/var/lib/slipway/{NAME}/", "/etc/ssh/ssh_host", "/etc/ssl/private"]
    assert [path for path in found.split() if not path.startswith(tuple(agents))] == []


def test_an_instance_of_another_role_is_refused_and_says_so(
    checkout: Checkout, cloud: Cloud, hosts: Bed, tmp_path: Path
) -> None:
    log = hosts.hosts["edge-0"].ssh(
        f"cat $(find /var/lib/slipway/{NAME} -path '*introducer*' -name '*stdout*' | head -1)"
    )
    assert log.count("introduced cpu-") >= 3
    assert subprocess.run(["true"], check=False).returncode == 0
