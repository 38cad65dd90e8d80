"""What a plan for AWS has beside the plan of every target: where its machines are, and of what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .endpoint import Endpoint
from .figures import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsZone:
    """The subnets of one availability zone."""

    name: str  # "us-east-1a"
    hosts: str  # fixed hosts, and nothing else that could take their addresses
    services: str  # interface endpoints and load balancers
    public: str  # the NAT gateway, and a public load balancer
    elastic: str  # the nodes of elastic pools, whose addresses AWS gives


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsImage:
    name: str  # "ami-…", or the path of an SSM parameter that has one
    root_device: str  # "/dev/xvda"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsHost:
    """A fixed host. Its address is that of its server or node."""

    zone: str
    instance: str  # catalog key
    image: AwsImage
    root_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsInterface:
    """A network interface: `interface` has an address, `efa` in addition the fabric, `efa-only`
    the fabric alone."""

    card: int
    device: int
    kind: Literal["interface", "efa", "efa-only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPool:
    """An elastic pool."""

    zones: tuple[str, ...]
    instance: str
    image: AwsImage
    root_gib: int
    market: str  # "on_demand" | "spot" | "reserved" | "capacity_block"
    reservation: str  # "cr-…"; "" without one
    interfaces: tuple[AwsInterface, ...]  # the primary one first
    local_store: bool  # whether its nodes mount their own disks as the pool's model store


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsLoadBalancer:
    """In front of the gateway's hosts, which it asks at /healthz."""

    name: str  # "slipway-prod"
    public: bool  # on the internet; otherwise in the environment's own network
    clients: tuple[str, ...]  # the networks that may connect: "10.0.0.0/8"
    port: int  # its own and that of the hosts
    health_scheme: str  # "http" or "https"
    targets: Mapping[str, str]  # host -> address
    drain_s: int  # how long a removed host may finish its answers
    idle_s: int  # how long a connection may be silent


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPlan:
    region: str
    zones: tuple[AwsZone, ...]
    egress: str  # "endpoints" | "nat"
    bucket: str
    kms_key: str  # ARN; "" for AWS's own key
    tags: Mapping[str, str]
    authorized_keys: tuple[str, ...]  # of operators, who log in to fixed hosts as root
    hosts: Mapping[str, AwsHost]  # by name, servers first
    pools: Mapping[str, AwsPool]  # elastic ones by name
    bundle: str  # the code of services/aws
    load_balancer: AwsLoadBalancer | None  # None where only operators reach the gateway
    network_usd_per_hour: Figure  # of what costs something without traffic; part of the plan's cost
    introducers: tuple[Endpoint, ...]  # whom new nodes of elastic pools ask; empty without any
