"""Environments on AWS that can be built: one, and changes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from slipway.plan.platform import PlatformPlan, SshHost
from stacks.planning import make_plan
from tests.components.test_devices import WITH_AGENTS
from tests.unit.planner.fleets import H100, L4, fleet, model_file
from tests.unit.planner.test_aws_plan import CLOUD, EDGE
from tests.unit.planner.test_public_certificate import FILES, SHOWN

SMALL = model_file("llama-3.2-1b", load=None, slo={})
ALIAS = "arn:aws:kms:us-east-1:123456789012:alias/slipway"
KEY = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"
CONNECT = {"known_hosts": "known_hosts", "jump": {"via": "ec2-instance-connect"}}
ELASTIC = {"nodes": {"min": 1, "max": 3}}
RESERVED = {
    **H100,
    "zone": "us-east-1b",
    "market": "reserved",
    "reservation": "cr-0123456789abcdef0",
    "usd_per_hour": 40.0,
}
BALANCED = {"load_balancer": {"clients": ["10.0.0.0/8", "192.168.0.0/16"]}}
# Changes of slipway:aws, of the pool l4, and of other settings.
VARIANTS: Mapping[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "three zones": ({}, {}, {}),
    "one server in one zone": (
        {"zones": ["us-east-1b"]},
        {"nodes": 1},
        {"servers": 1, "pools": {"edge": {**EDGE, "nodes": 1}}},
    ),
    "five servers and NAT": ({"egress": "nat"}, {}, {"servers": 5}),
    "an own key by alias": ({"kms_key": ALIAS}, {}, {}),
    "an own key, tags": ({"kms_key": KEY, "tags": {"cost-center": "42"}}, {}, {}),
    "through EC2 Instance Connect": ({}, {}, {"ssh": CONNECT}),
    "endpoints": (BALANCED, ELASTIC, {"ssh": CONNECT, "pools": {"h100": RESERVED}}),
    "NAT, spot, a key, tags": (
        {"egress": "nat", "kms_key": KEY, "tags": {"cost-center": "42"}},
        {**ELASTIC, "market": "spot"},
        {"pools": {"h100": {**RESERVED, "market": "capacity_block"}}},
    ),
    "an elastic pool": ({}, ELASTIC, {}),
    "spot instances and a key": ({"kms_key": KEY}, {**ELASTIC, "market": "spot"}, {}),
    "reserved with EFA": ({}, {}, {"pools": {"h100": RESERVED}}),
    "a block with EFA": ({}, {}, {"pools": {"h100": {**RESERVED, "market": "capacity_block"}}}),
    "on demand with EFA": ({}, {}, {"pools": {"h100": {**H100, "zone": "us-east-1c"}}}),
    "NAT and a public load balancer": (
        {"egress": "nat", "load_balancer": {"clients": ["198.51.100.0/24"], "public": True}},
        {},
        {"gateway": {"pool": "edge", "certificate": FILES}},
    ),
    "local disks": (
        {},
        {**ELASTIC, "model_store": {"path": "/mnt/models"}},
        {"pools": {"h100": {**RESERVED, "model_store": {"size": "60GiB"}}}},
    ),
    "a pool in one zone": ({}, {"zone": "us-east-1b", "root_gib": 300}, {}),
}


def aws_plan(variant: str = "three zones", *, host_keys: bool = True) -> PlatformPlan:
    cloud, l4, others = VARIANTS[variant]
    pools = {"edge": EDGE, "l4": {**L4, "nodes": 2, **l4}, **others.get("pools", {})}
    inputs = fleet(
        SMALL,
        pools=pools,
        deployments={"chat": {"pools": ["l4"], "replicas": {"min": 1, "max": 1}}},
        aws={**CLOUD, **cloud},
        **{
            "ssh": {"known_hosts": "known_hosts"},
            "servers": 3,
            **{key: each for key, each in others.items() if key != "pools"},
        },
    )
    plan = make_plan(dataclasses.replace(inputs, artifacts=WITH_AGENTS, certificate=SHOWN))
    # Its files are the operator's, and would be read.
    plan = dataclasses.replace(plan, gateway=dataclasses.replace(plan.gateway, certificate=None))
    return with_host_keys(plan) if host_keys else plan


def with_host_keys(
    plan: PlatformPlan, key: Callable[[str], str] = lambda _: "ssh-ed25519 AAAAC3Nz"
) -> PlatformPlan:
    assert plan.ssh is not None
    hosts: dict[str, SshHost] = {
        name: dataclasses.replace(host, host_key=key(name)) for name, host in plan.ssh.hosts.items()
    }
    return dataclasses.replace(plan, ssh=dataclasses.replace(plan.ssh, hosts=hosts))
