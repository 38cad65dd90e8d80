"""The plan of an environment that can be built on AWS: fixed hosts are known, elastic ones not."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from slipway.config.aws_cloud import AwsCloudSettings
from slipway.config.errors import ConfigError
from slipway.plan.aws import AwsImage
from slipway.plan.document import plan_to_json
from slipway.plan.platform import PlatformPlan
from slipway.planner.aws_prices import network_parts
from stacks.planning import make_plan
from tests.unit.config.checkout import ROOT
from tests.unit.planner.fleets import CATALOG, H100, L4, fleet, model_file

SCHEMA = json.loads((ROOT / "schemas/plan.schema.json").read_text())
CLOUD: dict[str, Any] = {
    "region": "us-east-1",
    "zones": ["us-east-1a", "us-east-1b", "us-east-1c"],
    "images": {"hosts": "ami-0123456789abcdef0", "nvidia": "/slipway/images/nvidia"},
    "bucket": "acme-slipway-prod",
    "authorized_keys": [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK9tDlC1bsLLQbxyuUFU1NphSfbPBRNtTVPgrAwOg0rn operators"
    ],
}
EDGE = {"kind": "aws", "instance": "m7i.2xlarge", "nodes": 2}
BALANCED = {**CLOUD, "load_balancer": {"clients": ["10.0.0.0/8"]}}
PUBLIC = {**CLOUD, "load_balancer": {"clients": ["198.51.100.0/24"], "public": True}}
DEPLOYED = {"chat": {"pools": ["l4"], "replicas": {"min": 1, "max": 2}}}


def planned(
    *files: Mapping[str, Any],
    l4: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    **changes: Any,
) -> PlatformPlan:
    """`l4` are changes of that pool, `others` further pools."""
    pools = {"edge": EDGE, "l4": {**L4, **(l4 or {})}, **(others or {})}
    settings = {
        "servers": 3,
        "aws": CLOUD,
        "ssh": {"known_hosts": "known_hosts"},
        **changes,
    }
    return make_plan(fleet(*files, pools=pools, deployments=DEPLOYED, **settings))


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
    assert {host.user for host in plan.ssh.hosts.values()} == {"root"}
    assert plan.operator.forwarded


def test_tunnels_lead_from_loopback_addresses_to_the_hosts_own() -> None:
    connect = {"known_hosts": "known_hosts", "jump": {"via": "ec2-instance-connect"}}
    plan = planned(ssh={**connect, "local_address": "127.201.3.1"})
    assert plan.ssh is not None
    assert plan.ssh.jump is None
    places = {name: (host.address, host.port) for name, host in plan.ssh.hosts.items()}
    assert places["server-0"] == ("127.201.0.4", 22022)
    assert places["edge-1"] == ("127.201.32.17", 22022)
    own = {server.name: server.address for server in plan.servers}
    own |= {node.name: node.address for node in plan.pool("edge").hosts}
    assert {name: plan.ssh.own_address(name) for name in plan.ssh.hosts} == own
    jsonschema.validate(json.loads(plan_to_json(plan)), SCHEMA)
    derived = planned(ssh=connect).ssh
    assert derived is not None
    assert derived.tunnels is not None
    first = planned(ssh=connect).operator.consul.host
    assert derived.tunnels.local == f"127.{first.split('.')[1]}.0.0/16"


def test_without_the_section_no_address_is_known() -> None:
    plan = make_plan(fleet(pools={"edge": EDGE, "l4": L4}, deployments=DEPLOYED, servers=3))
    assert {server.address for server in plan.servers} == {""}
    edge = plan.pool("edge")
    assert (edge.hosts, edge.nodes_min, edge.nodes_max) == ((), 2, 2)


def test_the_part_of_aws_says_where_each_machine_is_and_of_what() -> None:
    plan = planned(aws={**CLOUD, "egress": "nat", "tags": {"cost-center": "42"}})
    jsonschema.validate(json.loads(plan_to_json(plan)), SCHEMA)
    assert plan.aws is not None
    assert (plan.aws.region, plan.aws.egress, plan.aws.bucket) == (
        "us-east-1",
        "nat",
        "acme-slipway-prod",
    )
    assert [(zone.name, zone.hosts, zone.elastic) for zone in plan.aws.zones] == [
        ("us-east-1a", "10.40.0.0/23", "10.40.16.0/20"),
        ("us-east-1b", "10.40.32.0/23", "10.40.48.0/20"),
        ("us-east-1c", "10.40.64.0/23", "10.40.80.0/20"),
    ]
    hosts = {name: (each.zone, each.instance) for name, each in plan.aws.hosts.items()}
    assert hosts["server-2"] == ("us-east-1c", "m7i.2xlarge")
    assert hosts["edge-1"] == ("us-east-1b", "m7i.2xlarge")
    assert list(plan.aws.pools) == ["l4"]
    assert plan.aws.pools["l4"].zones == tuple(CLOUD["zones"])


def test_pools_boot_the_image_of_their_accelerators_and_others_that_of_all_hosts() -> None:
    plan = planned()
    assert plan.aws is not None
    assert plan.aws.pools["l4"].image.name == "/slipway/images/nvidia"
    assert {host.image.name for host in plan.aws.hosts.values()} == {"ami-0123456789abcdef0"}
    ubuntu = {"image": "ami-76543210", "root_device": "/dev/sda1"}
    images = {**CLOUD["images"], "cpu": "ami-01234567", "nvidia": ubuntu}
    pools = {"edge": EDGE, "l4": L4, "cpu": {**EDGE, "nodes": {"min": 1, "max": 2}}}
    with_own = make_plan(
        fleet(pools=pools, deployments=DEPLOYED, aws={**CLOUD, "images": images}, servers=3)
    ).aws
    assert with_own is not None
    assert with_own.hosts["edge-0"].image.name == "ami-0123456789abcdef0"
    assert with_own.pools["cpu"].image == AwsImage(name="ami-01234567", root_device="/dev/xvda")
    assert with_own.pools["l4"].image == AwsImage(name="ami-76543210", root_device="/dev/sda1")


def test_an_instance_with_efa_has_all_its_interfaces_in_the_plan() -> None:
    pools = {"edge": EDGE, "h100": {**H100, "zone": "us-east-1a"}}
    deployed = {"chat": {"pools": ["h100"], "replicas": {"min": 1, "max": 2}}}
    plan = make_plan(fleet(pools=pools, deployments=deployed, servers=3, aws=CLOUD))
    assert plan.aws is not None
    h100 = plan.aws.pools["h100"]
    assert h100.zones == ("us-east-1a",)
    assert Counter(each.kind for each in h100.interfaces) == {"interface": 1, "efa-only": 32}


def test_servers_and_the_network_are_part_of_the_price() -> None:
    with_servers, without = planned(), planned(aws=None, ssh=None)
    one = CATALOG.instances["m7i.2xlarge"].usd_per_hour
    assert one is not None
    added = with_servers.cost.usd_per_hour.value - without.cost.usd_per_hour.value
    endpoints = 3 * 3 * CATALOG.services["interface-endpoint"].usd_per_hour
    assert added == pytest.approx(3 * one + endpoints)
    assert "servers (3 x m7i.2xlarge on demand" in with_servers.cost.usd_per_hour.source
    at_most = with_servers.usd_per_hour_at_most - without.usd_per_hour_at_most
    assert at_most == pytest.approx(3 * one + endpoints)


@pytest.mark.parametrize(
    ("changes", "usd_per_hour", "parts"),
    [
        ({}, 0.09, "9 interface endpoints"),
        ({"egress": "nat"}, 0.05, "1 NAT gateway + 1 public IPv4"),
        (
            {"load_balancer": {"clients": ["10.0.0.0/8"]}, "zones": ["us-east-1a"]},
            0.0525,
            "1 network load balancer + 3 interface endpoints",
        ),
    ],
)
def test_what_the_network_costs_without_traffic(
    changes: dict[str, Any], usd_per_hour: float, parts: str
) -> None:
    one = {"servers": 1, "pools": {"edge": {**EDGE, "nodes": 1}, "l4": L4}}
    plan = make_plan(fleet(deployments=DEPLOYED, aws={**CLOUD, **changes}, **one))
    assert plan.aws is not None
    network = plan.aws.network_usd_per_hour
    assert network.value == pytest.approx(usd_per_hour)
    assert network.source == f"{parts}, without traffic: catalog/services.yaml"


def test_a_public_load_balancer_has_an_address_in_each_zone() -> None:
    settings = AwsCloudSettings.model_validate({**PUBLIC, "egress": "nat"})
    assert network_parts(settings, elastic=True) == {
        "network-load-balancer": 1,
        "nat-gateway": 1,
        "public-address": 4,
    }


def test_old_prices_beside_the_pools_are_warned_of() -> None:
    pools = {"edge": {**EDGE, "usd_per_hour": 1}, "l4": {**L4, "usd_per_hour": 1}}
    inputs = fleet(pools=pools, deployments=DEPLOYED, servers=3, aws=CLOUD)
    plan = make_plan(inputs, today=datetime.date(2027, 3, 15))
    assert [each for each in plan.warnings if "days old" in each] == [
        "the price of m7i.2xlarge is 114 days old (2026-11-21): check it and update its date in"
        " catalog/instances.yaml",
        "the price of interface-endpoint is 106 days old (2026-11-29): check it and update its"
        " date in catalog/services.yaml",
    ]
    assert plan.cost.price_date == "2026-11-21"


def test_servers_without_a_price_are_refused_until_it_is_stated() -> None:
    unpriced = {**CLOUD, "server_instance": "g7e.48xlarge"}
    ((key, message, fix),) = refused(aws=unpriced)
    assert key == "slipway:aws.server_instance"
    assert "has no price" in message
    assert "server_usd_per_hour" in fix
    stated = planned(aws={**unpriced, "server_usd_per_hour": 2.5})
    assert "servers (3 x g7e.48xlarge, " in stated.cost.usd_per_hour.source
    dearer = planned(aws={**unpriced, "server_usd_per_hour": 3.5})
    added = dearer.cost.usd_per_hour.value - stated.cost.usd_per_hour.value
    assert added == pytest.approx(3)


def refused(*files: Mapping[str, Any], **changes: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigError) as error:
        planned(*files, **changes)
    return [(each.key, each.message, each.fix) for each in error.value.problems]


@pytest.mark.parametrize(
    ("changes", "key", "message", "fix"),
    [
        ({"images": {"hosts": "ami-01234567"}}, "aws.images", "pool l4", "add `nvidia: ami-…`"),
        (
            {"server_instance": "m7i.2xlrge"},
            "aws.server_instance",
            "not in catalog",
            'did you mean "m7i.2xlarge"',
        ),
    ],
)
def test_what_the_catalog_does_not_have_is_refused(
    changes: dict[str, Any], key: str, message: str, fix: str
) -> None:
    ((found, said, advice),) = refused(aws={**CLOUD, **changes})
    assert found == f"slipway:{key}"
    assert message in said
    assert fix in advice


def test_a_load_balancer_lets_answers_finish_and_stays_as_long_as_the_gateway() -> None:
    plan = planned(
        model_file("llama-3.2-1b", load=None, slo={}, timeouts={"drain_s": 1200}), aws=BALANCED
    )
    jsonschema.validate(json.loads(plan_to_json(plan)), SCHEMA)
    assert plan.aws is not None
    balancer = plan.aws.load_balancer
    assert balancer is not None
    assert (balancer.name, balancer.public, balancer.drain_s) == ("slipway-fleet", False, 1200)
    assert balancer.idle_s > max(model.route["stream_idle_timeout_s"] for model in plan.models)
    assert balancer.targets == {node.name: node.address for node in plan.pool("edge").hosts}
    assert (balancer.port, balancer.health_scheme) == (8080, "http")


def test_a_public_load_balancer_needs_public_subnets_and_tls() -> None:
    (subnets, tls) = refused(aws=PUBLIC)
    assert subnets[0] == tls[0] == "slipway:aws.load_balancer.public"
    assert "egress to nat" in subnets[2]
    assert "add `certificate`" in tls[2]


def test_answers_longer_than_a_target_may_drain_are_refused() -> None:
    long = model_file("llama-3.2-1b", load=None, slo={}, timeouts={"drain_s": 3601})
    ((key, message, fix),) = refused(long, aws=BALANCED)
    assert key == "slipway:aws.load_balancer"
    assert "3601 s" in message
    assert "timeouts.drain_s" in fix


SMALLEST = {"cidr": "10.40.0.0/19"}  # its subnets for elastic pools have 507 addresses


def test_elastic_pools_may_fill_the_subnet_that_they_share() -> None:
    plan = planned(network=SMALLEST, l4={"nodes": {"min": 0, "max": 460}})
    assert plan.pool("l4").nodes_max == 460  # and 46 during a refresh


def test_nodes_without_an_address_are_refused() -> None:
    ((key, message, fix),) = refused(network=SMALLEST, l4={"nodes": {"min": 0, "max": 461}})
    assert key == "slipway:pools.l4.nodes.max"
    assert "508 of pool l4" in message
    assert "us-east-1a, whose subnet for elastic pools has 507" in message
    assert fix == (
        "lower it to 460; or, before the environment is built, set slipway:network.cidr to"
        " 10.40.0.0/18"
    )


def test_pools_in_one_zone_share_its_subnet_alone() -> None:
    zones = {"cpu": "us-east-1a", "l4": "us-east-1b"}
    half = {"nodes": {"min": 0, "max": 300}}
    cpu = {"cpu": {**EDGE, **half, "zone": "us-east-1a"}}
    apart = planned(network=SMALLEST, l4={**half, "zone": zones["l4"]}, others=cpu)
    assert apart.aws is not None
    assert {name: pool.zones[0] for name, pool in apart.aws.pools.items()} == zones
    ((key, message, fix),) = refused(network=SMALLEST, l4=half, others=cpu)
    assert key == "slipway:pools.cpu.nodes.max"
    assert "330 of pool cpu and 330 of pool l4" in message
    assert fix.startswith("lower it to 160; ")


def test_the_largest_network_can_be_too_small() -> None:
    ((_, _, fix),) = refused(l4={"nodes": {"min": 0, "max": 10_000}})
    assert fix == "lower it to 3719: AWS has no larger network"


def test_interfaces_of_the_fabric_alone_and_spares_of_a_reservation_take_no_address() -> None:
    reservation = {
        "market": "reserved",
        "reservation": "cr-0123456789abcdef0",
        "zone": "us-east-1a",
        "usd_per_hour": 40,
    }
    full = {**H100, **reservation, "nodes": {"min": 0, "max": 507}}
    assert planned(network=SMALLEST, l4={"zone": "us-east-1b"}, others={"h100": full})
    ((key, _, _),) = refused(
        network=SMALLEST,
        l4={"zone": "us-east-1b"},
        others={"h100": {**full, "nodes": {"min": 0, "max": 508}}},
    )
    assert key == "slipway:pools.h100.nodes.max"
