"""Who reaches the engines of members: rules of hosts, and security groups on AWS."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from components.aws_network.security_groups import ALL, connections, fabric_group
from components.hosts import artifacts
from components.hosts.supervision import Systemd
from components.joining.tokens import HostTokens
from components.node_pool.node_document import any_node, node_document
from slipway.config.errors import ConfigError
from slipway.plan.platform import PlatformPlan
from stacks.planning import make_plan
from stacks.platform import Platform
from stacks.targets.aws import TARGET
from tests.components.aws_environments import with_host_keys
from tests.components.recording import record
from tests.components.test_devices import WITH_AGENTS
from tests.unit.planner.fleets import H100, L4, engine, fleet, model_file
from tests.unit.planner.test_aws_plan import CLOUD, EDGE

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/node.schema.json").read_text())
ADDRESSES = {"gpu-0": "10.40.0.41", "gpu-1": "10.40.0.42", "edge-0": "10.40.0.31"}
GPU = {
    "kind": "metal",
    "accelerator": "H100-80",
    "accelerators_per_node": 8,
    "memory": "512GiB",
    "cpu": 64,
    "network_gbps": 400,
}
FABRIC = {
    "kind": "infiniband",
    "control_interface": "eno1",
    "interfaces": ["ib0", "ib1"],
    "networks": ["10.80.0.16/28", "10.81.0.16/28"],
}
OVER_TWO = model_file(
    engine=engine("llama-3.1-70b"), parallel={"tensor": 8, "pipeline": 2}, load=None, slo={}
)
ON_ONE = model_file(engine=engine("llama-3.1-70b"), parallel={"tensor": 8}, load=None, slo={})


def on_metal(
    model: Mapping[str, Any] = OVER_TWO, fabric: Any = FABRIC, **gateway: Any
) -> PlatformPlan:
    def hosts(pool: str) -> list[dict[str, str]]:
        return [
            {"name": name, "address": address}
            for name, address in ADDRESSES.items()
            if name.startswith(pool)
        ]

    inputs = fleet(
        model,
        pools={
            "gpu": {**GPU, "hosts": hosts("gpu"), "fabric": fabric},
            "edge": {"kind": "metal", "hosts": hosts("edge"), "memory": "4GiB", "cpu": 2},
        },
        deployments={model["name"]: {"pools": ["gpu"], "replicas": {"min": 1, "max": 1}}},
        server_hosts=[{"name": "server-0", "address": "10.40.0.11"}],
        ssh={"known_hosts": "known_hosts"},
        gateway={"pool": "edge"} | gateway,
    )
    return make_plan(dataclasses.replace(inputs, artifacts=WITH_AGENTS))


def on_aws(
    model: Mapping[str, Any] = OVER_TWO, pool: Mapping[str, Any] = H100, **zone: str
) -> PlatformPlan:
    inputs = fleet(
        model,
        pools={"edge": EDGE, "gpu": {**pool, **zone}},
        deployments={model["name"]: {"pools": ["gpu"], "replicas": {"min": 1, "max": 2}}},
        aws=CLOUD,
        ssh={"known_hosts": "known_hosts"},
    )
    return make_plan(dataclasses.replace(inputs, artifacts=WITH_AGENTS))


def documents(plan: PlatformPlan) -> dict[str, dict[str, Any]]:
    """Those of nodes that are listed, by name."""
    return {
        node.name: node_document(plan, pool, node, Systemd(), HostTokens())
        for pool in plan.pools
        for node in pool.hosts
    }


def test_a_host_with_members_lets_in_its_pool_and_the_gateway() -> None:
    found = documents(on_metal())
    rules = {
        "members": ["10.40.0.41", "10.40.0.42"],
        "clients": ["10.40.0.31"],
        "served_ports": [20000, 31999],
        "control_interface": "eno1",
        "interfaces": ["ib0", "ib1"],
        "networks": ["10.80.0.16/28", "10.81.0.16/28"],
    }
    assert [found[name]["firewall"] for name in ("gpu-0", "gpu-1")] == [rules, rules]
    assert "firewall" not in found["edge-0"]
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for document in found.values():
        validator.validate(document)


def test_without_a_network_of_the_fabric_members_come_from_their_hosts_addresses() -> None:
    found = documents(on_metal(fabric="infiniband"))["gpu-0"]["firewall"]
    assert found.keys() == {"members", "clients", "served_ports"}


@pytest.mark.parametrize("port", [20000, 31999, 32768, 65535])
def test_a_gateway_beside_members_has_no_port_that_the_firewall_closes(port: int) -> None:
    expected = (
        rf"(?s)gateway.port: .*closes to clients: .*found {port}.*fix: use a port below 20000"
    )
    with pytest.raises(ConfigError, match=expected):
        on_metal(pool="gpu", port=port)
    on_metal(pool="edge", port=port)
    on_metal(ON_ONE, pool="gpu", port=port)


@pytest.mark.parametrize("port", [8080, 19999, 32000, 32767])
def test_a_gateway_beside_members_may_have_a_port_that_stays_open(port: int) -> None:
    assert on_metal(pool="gpu", port=port).gateway.clients.port == port


def test_hosts_without_members_rule_over_no_connections() -> None:
    plan = on_metal(ON_ONE)
    assert not [name for name, each in documents(plan).items() if "firewall" in each]
    assert "nftables" not in packages(plan, "gpu-0")


def packages(plan: PlatformPlan, host: str) -> Mapping[str, str]:
    return artifacts.packages(plan, artifacts.node_named(plan, host))


def test_only_hosts_with_members_need_nftables() -> None:
    plan = on_metal()
    assert packages(plan, "gpu-0")["nftables"] == "/usr/sbin/nft"
    assert "nftables" not in packages(plan, "edge-0")
    assert "nftables" not in artifacts.packages(plan, None)


def template_of(plan: PlatformPlan, pool: str) -> Mapping[str, Any]:
    """The inputs of the launch template of a pool's nodes."""
    preview = record(lambda: Platform("platform", with_host_keys(plan), TARGET), preview=True)
    (found,) = [
        each
        for each in preview.of_type("aws:ec2/launchTemplate:LaunchTemplate")
        if each.name == f"pool-{pool}-template"
    ]
    return found.inputs


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (H100, "EFA between nodes of the pool and members on nodes of the pool"),
        (
            {**L4, "nodes": {"min": 0, "max": 4}, "fabric": {"allow_tcp": True}},
            "members on nodes of the pool",
        ),
    ],
    ids=["EFA", "TCP"],
)
def test_on_aws_members_are_reached_by_their_own_pools_nodes_alone(
    pool: Mapping[str, Any], reason: str
) -> None:
    small = model_file(engine=engine("llama-3.1-8b"), parallel={"pipeline": 2}, load=None, slo={})
    plan = on_aws(OVER_TWO if pool is H100 else small, pool, zone="us-east-1a")
    assert plan.aws is not None
    own = fabric_group("gpu")
    (of_members,) = [
        each for each in connections(plan, plan.aws) if own in (each.source, each.target)
    ]
    assert (of_members.source, of_members.target, of_members.protocol) == (own, own, ALL)
    assert of_members.reason == reason
    template = template_of(plan, "gpu")
    assert template["placement"]["groupName"] == "slipway-fleet-gpu"
    for interface in template["networkInterfaces"]:
        with_address = interface.get("interfaceType") != "efa-only"
        assert len(interface["securityGroups"]) == (2 if with_address else 1)
    chosen = plan.pool("gpu")
    node = node_document(plan, chosen, any_node(plan, chosen), Systemd(), HostTokens())
    assert "firewall" not in node


def test_on_aws_a_pool_with_members_is_in_one_zone() -> None:
    small = model_file(engine=engine("llama-3.1-8b"), parallel={"pipeline": 2}, load=None, slo={})
    pool = {**L4, "nodes": {"min": 0, "max": 4}, "fabric": {"allow_tcp": True}}
    with pytest.raises(ConfigError, match=r"(?s)zone.* is missing.*fix: add `zone: us-east-1a`"):
        on_aws(small, pool)
    with pytest.raises(ConfigError, match=r"(?s)fixed hosts.*fix: write `nodes: {min: 4, max: 4}`"):
        on_aws(small, {**pool, "nodes": 4}, zone="us-east-1a")
