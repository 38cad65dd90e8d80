"""Pools of an environment: nodes of one shape, on this machine, in a cloud, or owned."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import (
    MOST_DEVICES,
    MOST_NODES,
    Count,
    PositiveFloat,
    PositiveInt,
    ResourceName,
    Settings,
    SizeBytes,
    Tagged,
    UsdPerHour,
    invalid,
)
from .ssh import HostSshSettings

# Slot 0 belongs to the servers; the largest network, a /8, has more slots than anybody needs.
Slot = Annotated[int, Field(ge=1, le=4095)]
ADDRESSES_PER_POOL = 16  # of the environment's network
MAX_LOCAL_NODES = ADDRESSES_PER_POOL

Market = Literal["on_demand", "spot", "reserved", "capacity_block"]
Fabric = Literal["infiniband", "roce", "tcp"]


class LocalPool(Tagged):
    """Processes on this machine. `memory` and `cpu` (cores) are what one node offers to tasks.

    `slot` selects the nodes' 16 addresses in the network, starting at 16 x slot.
    """

    TAG = "local"
    EXAMPLE = "{kind: local, nodes: 2, slot: 1}"
    kind: Literal["local"]
    nodes: Annotated[int, Field(ge=1, le=MAX_LOCAL_NODES)]
    memory: SizeBytes | None = None
    cpu: Count | None = None
    slot: Slot | None = None
    first_address: str | None = None


class NodeRange(Settings):
    """The least and most nodes of a cloud pool."""

    EXAMPLE = "{min: 0, max: 4}"
    min: Annotated[int, Field(ge=0, le=MOST_NODES)] = 0
    max: Count


def _ordered(nodes: NodeRange) -> NodeRange:
    if nodes.min > nodes.max:
        raise invalid(
            "min is greater than max",
            fix=f"raise max to {nodes.min} or lower min to {nodes.max}",
        )
    return nodes


def ipv4_address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise invalid("is not an IPv4 address", fix="write it like 10.50.0.13") from None


class AwsPool(Tagged):
    """Instances of one type.

    `instance` is a key of catalog/instances.yaml. `usd_per_hour` is the price of one node, where it
    differs from the catalog's on-demand price. `quota` is the number of instances that the account
    may have.
    """

    TAG = "aws"
    EXAMPLE = "{kind: aws, instance: g6.xlarge, nodes: {min: 0, max: 4}}"
    kind: Literal["aws"]
    instance: str
    nodes: Annotated[NodeRange, AfterValidator(_ordered)]
    market: Market = "on_demand"
    usd_per_hour: UsdPerHour | None = None
    quota: PositiveInt | None = None


class HostSettings(Settings):
    """A machine. `ssh` is what differs from slipway:ssh there; `accelerators`, where it is stated,
    must be what its pool says of every node."""

    EXAMPLE = "{name: rack1-3, address: 10.50.0.13}"
    name: ResourceName
    address: Annotated[str, AfterValidator(ipv4_address)]
    accelerators: Annotated[int, Field(ge=0, le=MOST_DEVICES)] | None = None
    ssh: HostSshSettings = HostSshSettings()


class MetalPool(Tagged):
    """Existing machines: `hosts` by name and address, or a number of `nodes`.

    `usd_per_hour` is the owner's cost of one node, if known. `memory` and `cpu` (cores) are what
    one node offers to tasks; a pool without accelerators needs both.
    """

    TAG = "metal"
    EXAMPLE = "{kind: metal, accelerator: L40S, accelerators_per_node: 8, nodes: 2}"
    kind: Literal["metal"]
    accelerator: str | None = None
    accelerators_per_node: Annotated[int, Field(ge=0, le=MOST_DEVICES)] = 0
    nodes: Count | None = None
    hosts: Annotated[tuple[HostSettings, ...], Field(strict=False)] = ()
    memory: SizeBytes | None = None
    cpu: Count | None = None
    fabric: Fabric = "tcp"
    network_gbps: PositiveFloat = 10.0
    usd_per_hour: UsdPerHour | None = None


FleetPool = Annotated[AwsPool | MetalPool, Field(discriminator="kind")]
PoolSettings = LocalPool | AwsPool | MetalPool
