"""Elastic nodes: hosts of the bed boot from rendered user data, and join without `up`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.hosts.aws_cloud import FIXED, METADATA, Cloud, aws_environment, cloud_of_gateway
from tests.hosts.bed import FOLDER, NETWORK, Bed, Host
from tests.hosts.environment import NAME, Checkout, must_complete
from tests.waiting import until

pytestmark = pytest.mark.hosts

INSTANCES = {f"i-{k}": f"{NETWORK}.{201 + k}" for k in range(3)}
STRANGER = "i-stranger"
EDGE = FIXED["edge-0"]
NOMAD = f"https://{FIXED['server-0']}:4646"
CPU = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": {"min": 3, "max": 5}}


def instance_of(number: int) -> str:
    return f"i-{number:017x}"


def addresses_of_all() -> dict[str, str]:
    return {**FIXED, **INSTANCES, STRANGER: f"{NETWORK}.210"}


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return addresses_of_all()


@pytest.fixture(scope="module")
def cloud(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_of_gateway(hosts, tmp_path_factory.mktemp("cloud")) as made:
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
        cloud.user_data("cpu", up)
        for number, name in enumerate(INSTANCES):
            cloud.boot(hosts.hosts[name], "cpu", instance_of(number))
        said, _ = up.communicate(timeout=900)
        assert up.returncode == 0, said[-6000:]
    assert ready_nodes(checkout) == {f"cpu-{number:017x}" for number in range(3)}
    must_complete(EDGE)


def test_the_next_preview_is_empty(checkout: Checkout) -> None:
    done = checkout.slipway("preview", "--json", check=False)  # a policy wants three servers
    assert set(json.loads(done.stdout)["changeSummary"]) == {"same"}


def test_a_node_is_in_consul_at_its_own_address(checkout: Checkout) -> None:
    consul = f"https://{FIXED['server-0']}:8501"
    members = {each["Node"]: each["Address"] for each in checkout.ask(f"{consul}/v1/catalog/nodes")}
    for number, address in enumerate(INSTANCES.values()):
        assert members[f"cpu-{number:017x}"] == address


def test_prometheus_reads_every_agent_and_every_replica(checkout: Checkout) -> None:
    def targets() -> list[dict[str, Any]]:
        answer = checkout.ask(f"https://{EDGE}:9090/api/v1/targets?state=active")
        found: list[dict[str, Any]] = answer["data"]["activeTargets"]
        return found

    def nodes() -> set[str]:
        return {each["labels"].get("node", "") for each in targets() if "model" in each["labels"]}

    until(lambda: nodes() == {f"cpu-{number:017x}" for number in range(3)})
    until(lambda: all(each["health"] == "up" for each in targets()))
    jobs = Counter(each["labels"]["job"] for each in targets())
    assert jobs["consul"] == jobs["nomad"] == len(FIXED) + len(INSTANCES)


def test_a_node_that_boots_again_needs_no_introduction(checkout: Checkout, hosts: Bed) -> None:
    host = hosts.hosts["i-0"]
    log = "journalctl -u slipway-boot.service -o cat"
    assert host.ssh(log).count("introduced as") == 1
    host.ssh("systemctl restart slipway-boot.service")
    assert host.ssh(log).count("introduced as") == 1
    assert f"cpu-{0:017x}" in ready_nodes(checkout)


def test_no_key_is_outside_of_the_agents_folders(cloud: Cloud, hosts: Bed) -> None:
    assert "PRIVATE KEY" not in cloud.user_data("cpu")
    host, disk = hosts.hosts["i-0"], FOLDER / "places/i-0/up"
    written = [path for path in host.written("") if path.is_file() and not path.is_symlink()]
    found = [str(path.relative_to(disk)) for path in written if b"PRIVATE KEY" in path.read_bytes()]
    found += host.ssh("grep -rlI 'PRIVATE KEY' /run /tmp 2>/dev/null || true").split()
    known = (f"var/lib/slipway/{NAME}/nodes/", "etc/ssh/ssh_host_", "opt/slipway/")
    assert [path for path in found if not path.startswith(known)] == []


def test_an_instance_of_another_role_reads_nothing_of_a_pools(
    checkout: Checkout, cloud: Cloud, hosts: Bed
) -> None:
    stranger = hosts.hosts[STRANGER]
    cloud.boot(stranger, "cpu", instance_of(7), role=f"slipway-{NAME}-edge-0")
    log = "journalctl -u slipway-boot.service -o cat"
    until(lambda: "is not authorized to perform: s3:GetObject" in stranger.ssh(log))
    assert "is here" not in stranger.ssh(log)
    assert ready_nodes(checkout) == {f"cpu-{number:017x}" for number in range(3)}


def test_an_instance_of_no_pools_role_is_refused_in_the_log_whatever_it_may_read(
    checkout: Checkout, cloud: Cloud, hosts: Bed
) -> None:
    stranger, role = hosts.hosts[STRANGER], "slipway-stranger"
    cloud.copy_role(f"slipway-{NAME}-pool-cpu", role)
    cloud.describe(stranger, instance_of(7), role)
    log = "journalctl -u slipway-boot.service -o cat"
    until(lambda: f"role {role} is not that of a pool" in stranger.ssh(log))
    logs = f"/var/lib/slipway/{NAME}/nodes/edge-0/nomad/data/alloc/*/alloc/logs/introducer.stdout.0"
    said = hosts.hosts["edge-0"].ssh(f"cat {logs}")
    address = addresses_of_all()[STRANGER]
    assert f"refused {address}: role {role} is not that of a pool" in said
    assert said.count("introduced cpu-") == len(INSTANCES)
    assert ready_nodes(checkout) == {f"cpu-{number:017x}" for number in range(3)}


def said_by(host: Host, path: str) -> tuple[int, str]:
    """By the instance's metadata: the status, and what is below latest/meta-data/."""
    text = host.ssh(
        "session=$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60'"
        f" http://{METADATA}/latest/api/token)"
        ' && curl -s -w "\n%{http_code}" -H "X-aws-ec2-metadata-token: $session"'
        f" http://{METADATA}/latest/meta-data/{path}"
    )
    body, _, status = text.rpartition("\n")
    return int(status), body


STATE, SPOT = "autoscaling/target-lifecycle-state", "spot/instance-action"
REBALANCE = "events/recommendations/rebalance"


def test_an_instances_metadata_says_what_happens_to_it(cloud: Cloud, hosts: Bed) -> None:
    host = hosts.hosts[STRANGER]
    assert said_by(host, STATE) == (200, "InService")
    assert [said_by(host, path)[0] for path in (SPOT, REBALANCE)] == [404, 404]
    cloud.recommend_rebalance(host)
    assert set(json.loads(said_by(host, REBALANCE)[1])) == {"noticeTime"}
    cloud.spot_notice(host, 120)
    assert json.loads(said_by(host, SPOT)[1])["action"] == "terminate"
    assert said_by(host, STATE) == (200, "InService")
    cloud.terminate(host)
    assert said_by(host, STATE) == (200, "Terminated")
    assert [said_by(host, path)[0] for path in (SPOT, REBALANCE)] == [200, 200]
    assert said_by(host, "instance-id") == (200, instance_of(7))
