"""The plan of an environment that can be built on AWS: fixed hosts are known, elastic ones not."""

from __future__ import annotations

from typing import Any

from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from tests.unit.planner.fleets import L4, fleet

CLOUD = {
    "region": "us-east-1",
    "zones": ["us-east-1a", "us-east-1b", "us-east-1c"],
    "images": {"hosts": "ami-0123456789abcdef0", "nvidia": "/slipway/images/nvidia"},
    "bucket": "acme-slipway-prod",
}
EDGE = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": 2}
DEPLOYED = {"chat": {"pools": ["l4"], "replicas": {"min": 1, "max": 2}}}


def planned(**changes: Any) -> PlatformPlan:
    pools = {"edge": EDGE, "l4": L4}
    settings = {
        "servers": 3,
        "aws": CLOUD,
        "ssh": {"known_hosts": "known_hosts", "user": "admin"},
        **changes,
    }
    return make_plan(fleet(pools=pools, deployments=DEPLOYED, **settings))


def test_servers_and_the_gateways_hosts_have_addresses_and_elastic_pools_a_range() -> None:
    plan = planned()
    servers = {server.name: server.address for server in plan.servers}
    assert servers == {
        "server-0": "10.40.0.4",
        "server-1": "10.40.32.5",
        "server-2": "10.40.64.6",
    }
    edge, l4 = plan.pool("edge"), plan.pool("l4")
    assert [(node.name, node.address) for node in edge.hosts] == [
        ("edge-0", "10.40.0.16"),
        ("edge-1", "10.40.32.17"),
    ]
    assert (l4.hosts, l4.nodes_min, l4.nodes_max) == ((), 0, 8)


def test_every_gateway_host_has_an_envoy() -> None:
    envoys = planned().gateway.envoys
    assert [(each.name, each.node, each.listener.host) for each in envoys] == [
        ("envoy-edge-0", "edge-0", "10.40.0.16"),
        ("envoy-edge-1", "edge-1", "10.40.32.17"),
    ]


def test_fixed_hosts_are_reached_over_ssh_and_forwarded_as_those_of_metal() -> None:
    plan = planned()
    assert plan.ssh is not None
    assert list(plan.ssh.hosts) == ["server-0", "server-1", "server-2", "edge-0", "edge-1"]
    assert {host.user for host in plan.ssh.hosts.values()} == {"admin"}
    assert plan.operator.forwarded


def test_without_the_section_no_address_is_known() -> None:
    plan = make_plan(fleet(pools={"edge": EDGE, "l4": L4}, deployments=DEPLOYED, servers=3))
    assert {server.address for server in plan.servers} == {""}
    edge = plan.pool("edge")
    assert (edge.hosts, edge.nodes_min, edge.nodes_max) == ((), 2, 2)
