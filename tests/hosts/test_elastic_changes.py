"""Nodes of an elastic pool take up what changes, are replaced, and leave by AWS's notices, under
streams."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from cli import certificates
from tests.hosts.aws_cloud import FIXED, Cloud, aws_environment, cloud_of_gateway
from tests.hosts.aws_group import Group
from tests.hosts.bed import NETWORK, Bed
from tests.hosts.environment import NAME, Checkout, changed_code, streams
from tests.hosts.failover import HEALTHY, endpoints
from tests.waiting import until

pytestmark = [pytest.mark.hosts, pytest.mark.soak]

MACHINES = {f"i-{k}": f"{NETWORK}.{201 + k}" for k in range(4)}
EDGE = FIXED["edge-0"]
CONSUL, NOMAD = f"https://{FIXED['server-0']}:8501", f"https://{FIXED['server-0']}:4646"
CPU = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": {"min": 2, "max": 5}}
LONG = 8000  # tokens of a stream that outlives every notice


@pytest.fixture(scope="module")
def addresses() -> Mapping[str, str]:
    return {**FIXED, **MACHINES}


@pytest.fixture(scope="module")
def cloud(hosts: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with cloud_of_gateway(hosts, tmp_path_factory.mktemp("cloud")) as made:
        yield made


@pytest.fixture(scope="module")
def group(cloud: Cloud) -> Group:
    return Group(cloud=cloud, pool="cpu", free=list(MACHINES))


@pytest.fixture(scope="module")
def checkout(
    cloud: Cloud, group: Group, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Checkout]:
    models = {"sim-a": {"min": 2, "max": 2}}
    with aws_environment(cloud, tmp_path_factory, pools={"cpu": CPU}, models=models) as made:
        with made.running("up") as up:
            cloud.user_data("cpu", up)
            for instance in [group.start() for _ in range(2)]:
                group.joined(instance)
            said, _ = up.communicate(timeout=900)
            assert up.returncode == 0, said[-6000:]
        yield made


def in_nomad(checkout: Checkout) -> set[str]:
    """The pool's nodes that Nomad lists, also those that are down."""
    listed: list[dict[str, Any]] = checkout.ask(f"{NOMAD}/v1/nodes")
    return {node["Name"] for node in listed if node["NodePool"] == "cpu"}


def in_consul(checkout: Checkout) -> set[str]:
    """Members of the cluster that have not left, and nodes of the catalog."""
    members = checkout.ask(f"{CONSUL}/v1/agent/members")
    listed = checkout.ask(f"{CONSUL}/v1/catalog/nodes")
    found = {each["Name"] for each in members if each["Status"] != 3}  # 3: has left
    return {name for name in found | {each["Node"] for each in listed} if name.startswith("cpu-")}


def log_ins(checkout: Checkout) -> set[str]:
    """The pool's nodes for which Consul has tokens of log-ins."""
    listed = checkout.ask(f"{CONSUL}/v1/acl/tokens")
    bound = [each for token in listed for each in token.get("NodeIdentities") or ()]
    return {each["NodeName"] for each in bound if each["NodeName"].startswith("cpu-")}


def serving(checkout: Checkout) -> set[str]:
    """Addresses of replicas to which the gateway's Envoy gives requests."""
    found = endpoints(checkout, EDGE)
    return {address for address, flags in found.items() if flags == HEALTHY}


def streaming(checkout: Checkout) -> str:
    """The address of a replica that answers requests just now; "" if none does."""
    verified = certificates.platform(checkout.operator)
    text = httpx.get(f"https://{EDGE}:9901/clusters", verify=verified).raise_for_status().text
    busy = r"^model-sim-a\S*-openai::(\S+?):\d+::rq_active::[1-9]"
    found = re.search(busy, text, re.MULTILINE)
    return found[1] if found else ""


def nodes_are(checkout: Checkout, group: Group) -> bool:
    """Both clusters know the group's instances, and no others."""
    wanted = {group.node(instance) for instance in group.hosts}
    known = {
        "Nomad": in_nomad(checkout),
        "Consul": in_consul(checkout),
        "tokens": log_ins(checkout),
    }
    others = {name: nodes ^ wanted for name, nodes in known.items() if nodes != wanted}
    if others:
        sys.stdout.write(f"{others}\n")  # pytest shows it if they stay
    return not others


def address_of(group: Group, instance: str) -> str:
    return MACHINES[group.hosts[instance]]


def instance_at(group: Group, address: str) -> str:
    return next(each for each in group.hosts if address_of(group, each) == address)


def one_that_serves_beside_a_free_node(checkout: Checkout, group: Group) -> str:
    """An instance with a replica, once another one has joined that has room for it."""
    group.joined(group.start())
    until(lambda: len(serving(checkout)) == 2)
    return instance_at(group, sorted(serving(checkout))[0])


def secrets_of(cloud: Cloud, group: Group, instance: str) -> dict[str, Any]:
    """What the instance's Consul agent keeps secret."""
    host, node = cloud.bed.hosts[group.hosts[instance]], group.node(instance)
    path = f"/var/lib/slipway/{NAME}/nodes/{node}/consul"
    found: dict[str, Any] = json.loads(host.ssh(f"cat {path}/secrets.json"))
    return {**found, "certificate": host.ssh(f"cat {path}/certificate/cert.pem")}


def test_renewed_certificates_and_gossip_keys_reach_running_nodes(
    checkout: Checkout, cloud: Cloud, group: Group
) -> None:
    before = {each: secrets_of(cloud, group, each) for each in group.hosts}
    checkout.put("security", {"gossip_key": 2})
    with (
        changed_code(
            checkout,
            "components/certificates/component.py",
            "RENEWED_DAYS_BEFORE = 120",
            "RENEWED_DAYS_BEFORE = 366",
        ),
        streams(EDGE) as streamed,
    ):
        checkout.slipway("up")

        def taken_up(instance: str) -> bool:
            old, new = before[instance], secrets_of(cloud, group, instance)
            return all(old[key] != new[key] for key in ("certificate", "encrypt"))

        for instance in group.hosts:
            until(lambda instance=instance: taken_up(instance))
    assert len(streamed.answers) > 20
    assert streamed.failed == []
    until(lambda: nodes_are(checkout, group))


def test_a_changed_document_replaces_every_node_once_its_successor_has_joined(
    checkout: Checkout, cloud: Cloud, group: Group
) -> None:
    before = set(group.hosts)
    with (
        changed_code(
            checkout,
            "components/consul/agent_config.py",
            '"prometheus_retention_time": "5m"',
            '"prometheus_retention_time": "6m"',
        ),
        group.refreshing(),
        streams(EDGE) as streamed,
    ):
        checkout.slipway("up")
    assert "50 % replaced, 1 left" in checkout.log()
    assert len(streamed.answers) > 20
    assert streamed.failed == []
    assert group.most == len(before) + 1
    assert not before & set(group.hosts)
    until(lambda: nodes_are(checkout, group))


def test_a_node_that_its_group_ends_hands_over_its_work_and_is_forgotten(
    checkout: Checkout, group: Group
) -> None:
    leaving = one_that_serves_beside_a_free_node(checkout, group)
    with streams(EDGE) as streamed:
        group.told_to_end(leaving)
        group.left(leaving)
        until(lambda: nodes_are(checkout, group))
        until(lambda: len(serving(checkout)) == 2)
    assert len(streamed.answers) > 4
    assert streamed.failed == []
    said = [each for each in group.cloud.lifecycle() if each["instance"] == leaving]
    assert [each["call"] for each in said][-2:] == ["heartbeat", "completion"]


def test_a_rebalance_recommendation_empties_the_node_before_its_group_ends_it(
    checkout: Checkout, group: Group
) -> None:
    leaving = one_that_serves_beside_a_free_node(checkout, group)
    address = address_of(group, leaving)
    with streams(EDGE) as streamed:
        group.cloud.recommend_rebalance(group.cloud.bed.hosts[group.hosts[leaving]])
        until(lambda: address not in serving(checkout) and len(serving(checkout)) == 2)
        assert group.node(leaving) in in_nomad(checkout) & in_consul(checkout)
        group.told_to_end(leaving)
        group.left(leaving)
        until(lambda: len(serving(checkout)) == 2)
    assert streamed.failed == []
    until(lambda: nodes_are(checkout, group))


def test_a_spot_notice_empties_the_node_at_once_and_only_streams_that_outlive_it_end_with_an_error(
    checkout: Checkout, group: Group
) -> None:
    one_that_serves_beside_a_free_node(checkout, group)
    with ExitStack() as running:
        long = running.enter_context(streams(EDGE, tokens=LONG))
        gone = until(lambda: streaming(checkout))  # all have the same key
        leaving = instance_at(group, gone)
        group.cloud.spot_notice(group.cloud.bed.hosts[group.hosts[leaving]], in_s=60)
        until(lambda: gone not in serving(checkout))
        with streams(EDGE) as streamed:  # since the gateway has been told
            until(lambda: group.node(leaving) not in in_nomad(checkout) | in_consul(checkout))
            assert len(streamed.answers) > 4
            until(lambda: len(serving(checkout)) == 2)
            group.ended(leaving)
        assert streamed.failed == []
        until(lambda: long.failed)
    until(lambda: nodes_are(checkout, group))
