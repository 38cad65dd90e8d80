"""The section slipway:aws, and pools that are to be built: a mistake names key, value and fix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from slipway.config.aws import AwsPool, AwsSettings
from slipway.config.environment import parse_environment
from slipway.config.errors import ConfigError, Problem
from tests.unit.config.checkout import ROOT

CLOUD = {
    "region": "us-east-1",
    "zones": ["us-east-1a", "us-east-1b", "us-east-1c"],
    "images": {"hosts": "ami-0123456789abcdef0", "nvidia": "/slipway/images/nvidia"},
    "bucket": "acme-slipway-prod",
    "authorized_keys": [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK9tDlC1bsLLQbxyuUFU1NphSfbPBRNtTVPgrAwOg0rn operators"
    ],
    "kms_key": "arn:aws:kms:us-east-1:123456789012:alias/slipway",
    "egress": "nat",
    "tags": {"cost-center": "42"},
}
EDGE = {"kind": "aws", "instance": "m7i.xlarge", "nodes": 2}
H100 = {"kind": "aws", "instance": "p5.48xlarge", "nodes": {"min": 0, "max": 2}}
BLOCK = "cr-0123456789abcdef0"
RESERVED = {**H100, "market": "reserved", "reservation": BLOCK, "zone": "us-east-1b"}
VALUES: dict[str, Any] = {
    "slipway:target": "aws",
    "slipway:network": {"cidr": "10.40.0.0/16"},
    "slipway:servers": 3,
    "slipway:aws": CLOUD,
    "slipway:pools": {"edge": EDGE, "h100": H100},
    "slipway:gateway": {"pool": "edge"},
    "slipway:models": {"chat": {"pool": "h100", "replicas": {"min": 1, "max": 2}}},
}


def edited(values: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """With another value at `path`; without the key for None."""
    key, *below = path
    if below:
        return {**values, key: edited(values[key], tuple(below), value)}
    rest = {name: each for name, each in values.items() if name != key}
    return rest if value is None else {**rest, key: value}


def problem(values: Mapping[str, Any]) -> Problem:
    with pytest.raises(ConfigError) as error:
        parse_environment(values, name="prod", source="Pulumi.prod.yaml")
    (found,) = error.value.problems
    return found


def test_an_environment_that_can_be_built_is_valid() -> None:
    settings = parse_environment(VALUES, name="prod", source="Pulumi.prod.yaml").settings
    assert isinstance(settings, AwsSettings)
    assert settings.aws is not None
    edge, h100 = settings.bought["edge"], settings.bought["h100"]
    assert (edge.fixed, edge.nodes_min, edge.nodes_max) == (2, 2, 2)
    assert (h100.fixed, h100.nodes_min, h100.nodes_max) == (0, 0, 2)


@pytest.mark.parametrize("pool", [RESERVED, {**RESERVED, "market": "capacity_block"}])
def test_a_reservation_is_used_in_its_zone(pool: dict[str, Any]) -> None:
    values = edited(VALUES, ("slipway:pools", "h100"), pool)
    settings = parse_environment(values, name="prod", source="Pulumi.prod.yaml").settings
    assert isinstance(settings.pools["h100"], AwsPool)
    assert settings.pools["h100"].reservation == BLOCK


AWS, POOLS = "slipway:aws", "slipway:pools"
# path, value, then key, words of the message, words of the fix
MISTAKES: list[tuple[tuple[str, ...], Any, str, str, str]] = [
    ((AWS, "region"), None, "aws.region", "is required", "add `region:`"),
    ((AWS, "zones"), None, "aws.zones", "is required", "add `zones:`"),
    ((AWS, "zones"), [], "aws.zones", "must not be empty", "add at least one"),
    ((AWS, "zones"), 3, "aws.zones", "must be a list", "give a list"),
    ((AWS, "bucket"), None, "aws.bucket", "is required", "add `bucket:`"),
    ((AWS, "bucket"), "Acme", "aws.bucket", "lower-case letters", "acme-slipway-prod"),
    ((AWS, "bucket"), "acme.prod", "aws.bucket", "a dot would break TLS", "acme-slipway-prod"),
    ((AWS, "bucket"), "-acme", "aws.bucket", "lower-case letters", "acme-slipway-prod"),
    ((AWS, "images"), None, "aws.images", "is required", "add `images:`"),
    ((AWS, "images"), {}, "aws.images.hosts", "is required", "add `hosts:`"),
    ((AWS, "images", "hosts"), "debian-12", "aws.images.hosts", "ID of an image", "ami-0"),
    ((AWS, "images", "nvidia"), "ami-12", "aws.images.nvidia", "ID of an image", "ami-0"),
    ((AWS, "images", "gpu"), "ami-01234567", "aws.images.gpu", "unknown key", "cpu"),
    ((AWS, "kms_key"), "alias/slipway", "aws.kms_key", "ARN of a KMS key", "arn:aws:kms"),
    (
        (AWS, "kms_key"),
        "arn:aws:kms:us-west-2:123456789012:alias/slipway",
        "aws.kms_key",
        "key of another region than us-east-1",
        "key of us-east-1",
    ),
    ((AWS, "authorized_keys"), None, "aws.authorized_keys", "is required", "authorized_keys:"),
    ((AWS, "authorized_keys"), [], "aws.authorized_keys", "must not be empty", "at least one"),
    ((AWS, "authorized_keys"), ["me"], "aws.authorized_keys.0", "public key of OpenSSH", "ssh-ed"),
    (
        (AWS, "images", "nvidia"),
        {"image": "ami-12345678", "root_device": "sda1"},
        "aws.images.nvidia.root_device",
        "name of the root volume",
        "/dev/sda1",
    ),
    (("slipway:ssh",), {"known_hosts": "k", "user": "admin"}, "ssh.user", "are root's", "remove"),
    (
        ("slipway:ssh",),
        {"known_hosts": "k", "jump": {"via": "ssm"}},
        "ssh.jump.via",
        "'ec2-instance-connect'",
        "ec2-instance-connect",
    ),
    (("slipway:ssh",), {"known_hosts": "k", "port": 2222}, "ssh.port", "SSH at 22", "remove it"),
    (
        (AWS, "load_balancer"),
        {"clients": []},
        "aws.load_balancer.clients",
        "must not be empty",
        "remove the load balancer",
    ),
    (
        (AWS, "load_balancer"),
        {"clients": ["10.0.0.1/8"]},
        "aws.load_balancer.clients.0",
        "host bits must be zero",
        "10.0.0.0/8",
    ),
    (
        (AWS, "load_balancer"),
        {"clients": ["10.0.0.0/8", "10.0.0.0/8"]},
        "aws.load_balancer.clients.1",
        "listed twice",
        "once",
    ),
    ((AWS, "load_balancer"), {}, "aws.load_balancer.clients", "is required", "add `clients:`"),
    ((AWS, "egress"), "internet", "aws.egress", "'endpoints' or 'nat'", "one of"),
    ((AWS, "tags"), {"aws:x": "1"}, "aws.tags.aws:x", "not beginning with aws:", "cost-center"),
    ((AWS, "tags"), {"Name": "x"}, "aws.tags.Name", "Slipway sets itself", "remove it"),
    ((AWS, "tags"), {"a": 1}, "aws.tags.a", "must be text", "put it in quotes"),
    ((AWS, "tags"), {"AWS:x": "1"}, "aws.tags.AWS:x", "not beginning with aws:", "cost-center"),
    ((AWS, "tags"), {"a": "x" * 257}, "aws.tags.a", "at most 256", "42"),
    ((AWS, "tags"), {"a": "<b>"}, "aws.tags.a", "at most 256 letters", "42"),
    ((AWS, "bucket"), "acme-s3alias", "aws.bucket", "S3 keeps", "acme-slipway-prod"),
    (("slipway:network", "cidr"), "198.18.0.0/16", "network.cidr", "RFC 1918", "10.40.0.0/16"),
    ((POOLS, "edge", "slot"), 3, "pools.edge.slot", "the gateway's, whose slot", "remove it"),
    ((AWS, "profile"), "x", "aws.profile", "unknown key", "one of"),
    (("slipway:network", "cidr"), "10.0.0.0/8", "network.cidr", "prefix of 8 bits", "10.40.0.0"),
    (("slipway:network", "cidr"), "10.0.0.0/22", "network.cidr", "prefix of 22", "10.40.0.0"),
    ((POOLS, "edge", "nodes"), {"min": 1, "max": 2}, "gateway.pool", "elastic pool", "edge: {"),
    ((POOLS, "edge", "nodes"), 17, "pools.edge.nodes", "at most 16", "16 or less"),
    ((POOLS, "edge", "nodes"), "2", "pools.edge.nodes", "a whole number", "give a whole number"),
    ((POOLS, "edge", "slot"), 0, "pools.edge.slot", "at least 2", "2 or more"),
    ((POOLS, "edge", "zone"), "us-east-1d", "pools.edge.zone", "not one of", "us-east-1a"),
    ((POOLS, "edge", "market"), "spot", "pools.edge.market", "for elastic pools", "on_demand"),
    ((POOLS, "edge", "root_gib"), 4, "pools.edge.root_gib", "at least 8", "8 or more"),
    ((POOLS, "edge", "quota"), 1, "pools.edge.quota", "less than nodes, which is 2", "lower nodes"),
    ((POOLS, "server"), EDGE, "pools.server", "names of servers", "rename the pool"),
    ((POOLS, "h100", "slot"), 3, "pools.h100.slot", "for fixed pools", "remove it"),
    ((POOLS, "h100", "nodes", "min"), 3, "pools.h100.nodes", "greater than max", "raise max"),
    ((POOLS, "h100", "reservation"), BLOCK, "pools.h100.reservation", "on_demand", "market: res"),
    ((POOLS, "h100"), {**RESERVED, "reservation": "cr-1"}, "pools.h100.reservation", "ID", "cr-0"),
    ((POOLS, "h100", "zone"), "us-west-2a", "pools.h100.zone", "not one of", "us-east-1"),
    (
        (POOLS, "h100"),
        {key: value for key, value in RESERVED.items() if key != "reservation"},
        "pools.h100.market",
        "needs the ID of what is reserved",
        "reservation: cr-",
    ),
    (
        (POOLS, "h100"),
        {key: value for key, value in RESERVED.items() if key != "zone"},
        "pools.h100.zone",
        "a reservation is for one zone",
        "add `zone:`",
    ),
]


@pytest.mark.parametrize(("path", "value", "key", "message", "fix"), MISTAKES)
def test_a_mistake_is_refused_with_its_key_and_its_fix(
    path: tuple[str, ...], value: Any, key: str, message: str, fix: str
) -> None:
    found = problem(edited(VALUES, path, value))
    assert (found.key, message in found.message, fix in found.fix) == (
        f"slipway:{key}",
        True,
        True,
    ), found


@pytest.mark.parametrize(
    ("zones", "key", "message", "fix"),
    [
        (["us-east-1a", "us-east-1b", "us-east-1a"], "2", "listed twice", "once"),
        (["us-east-1a", "us-east-1b", "us-west-2a"], "2", "not an availability zone", "us-east-1a"),
        (["us-east-1a", "us-east-1b", "use1-az1"], "2", "not an availability zone", "us-east-1a"),
        (["us-east-1-lax-1a", "us-east-1b", "us-east-1c"], "0", "local zones", "us-east-1a"),
    ],
)
def test_a_zone_is_one_of_the_region_and_listed_once(
    zones: list[str], key: str, message: str, fix: str
) -> None:
    found = problem(edited(VALUES, (AWS, "zones"), zones))
    assert found.key == f"slipway:aws.zones.{key}"
    assert message in found.message
    assert fix in found.fix


def test_an_unknown_region_is_refused_with_the_closest_one() -> None:
    values = edited(VALUES, (AWS, "region"), "us-esat-1")
    values = edited(values, (AWS, "kms_key"), None)
    values = edited(values, (AWS, "zones"), [f"us-esat-1{letter}" for letter in "abc"])
    found = problem(values)
    assert (found.key, found.value) == ("slipway:aws.region", "us-esat-1")
    assert '"us-east-1"' in found.fix


@pytest.mark.parametrize(
    ("zones", "servers", "nodes", "key"),
    [
        (["us-east-1a"], 3, 1, "aws.zones"),
        (["us-east-1a", "us-east-1b"], 5, 2, "aws.zones"),
        (["us-east-1a"], 1, 2, "pools.edge.nodes"),
        (["us-east-1a", "us-east-1b"], 1, 3, "pools.edge.nodes"),
    ],
)
def test_fixed_hosts_need_as_many_zones_as_they_are_three_at_most(
    zones: list[str], servers: int, nodes: int, key: str
) -> None:
    values = edited(VALUES, (AWS, "zones"), zones)
    values = edited(values, ("slipway:servers",), servers)
    assert problem(edited(values, (POOLS, "edge", "nodes"), nodes)).key == f"slipway:{key}"


def test_a_pool_in_one_zone_needs_no_other() -> None:
    values = edited(VALUES, (AWS, "zones"), ["us-east-1a"])
    values = edited(values, ("slipway:servers",), 1)
    values = edited(values, (POOLS, "edge"), {**EDGE, "zone": "us-east-1a", "nodes": 3})
    parse_environment(values, name="prod", source="Pulumi.prod.yaml")


def test_without_the_section_an_environment_can_be_planned_with_an_elastic_gateway() -> None:
    values = edited(edited(VALUES, (AWS,), None), ("slipway:gateway",), {"pool": "h100"})
    parse_environment(values, name="prod", source="Pulumi.prod.yaml")


def test_the_example_in_the_documentation_is_valid() -> None:
    page = (ROOT / "docs/planning.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(slipway:network.*?)```", page, re.DOTALL)
    deployed = {"chat": {"pool": "h100", "replicas": {"min": 1, "max": 2}}}
    values = {"slipway:target": "aws", "slipway:models": deployed, **yaml.safe_load(example)}
    settings = parse_environment(values, name="prod", source="docs/planning.md").settings
    assert isinstance(settings, AwsSettings)
    assert settings.aws is not None


def test_instance_connect_is_for_aws_alone() -> None:
    room = {"kind": "metal", "memory": "16GiB", "cpu": 8, "nodes": 1}
    values = {
        **VALUES,
        "slipway:target": "metal",
        "slipway:pools": {"edge": room},
        "slipway:models": {"chat": {"pool": "edge", "replicas": {"min": 1, "max": 1}}},
        "slipway:ssh": {"known_hosts": "k", "jump": {"via": "ec2-instance-connect"}},
    }
    del values["slipway:aws"]
    found = problem(values)
    assert found.key == "slipway:ssh.jump.via"
    assert "for hosts on AWS" in found.message
    assert "bastion" in found.fix
