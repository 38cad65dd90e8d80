"""Pools of an environment: nodes of one shape, on this machine, from a cloud, or owned."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import (
    MOST_NODES,
    Count,
    Devices,
    PositiveFloat,
    PositiveInt,
    Settings,
    SizeBytes,
    Tagged,
    UsdPerHour,
    invalid,
)

MAX_LOCAL_NODES = 16  # a pool has 16 addresses of the environment's network

Market = Literal["on_demand", "spot", "reserved", "capacity_block"]
Fabric = Literal["infiniband", "roce", "tcp"]


class LocalPool(Tagged):
    """Processes on this machine. `memory` and `cpu` (cores) are what one node offers to tasks."""

    TAG = "local"
    EXAMPLE = "{kind: local, nodes: 2}"
    kind: Literal["local"]
    nodes: Annotated[int, Field(ge=1, le=MAX_LOCAL_NODES)]
    memory: SizeBytes | None = None
    cpu: Count | None = None
    first_address: str | None = None


class NodeRange(Settings):
    """How many nodes a cloud pool keeps at least and may have at most."""

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


class AwsPool(Tagged):
    """Instances of one type.

    `instance` is a key of catalog/instances.yaml. `usd_per_hour` is what one node costs, where
    that is not the catalog's on-demand price. `quota` is how many of them the account may have.
    """

    TAG = "aws"
    EXAMPLE = "{kind: aws, instance: g6.xlarge, nodes: {min: 0, max: 4}}"
    kind: Literal["aws"]
    instance: str
    nodes: Annotated[NodeRange, AfterValidator(_ordered)]
    market: Market = "on_demand"
    usd_per_hour: UsdPerHour | None = None
    quota: PositiveInt | None = None


class MetalPool(Tagged):
    """Machines that are there. `usd_per_hour` is what one node costs its owner, if known."""

    TAG = "metal"
    EXAMPLE = "{kind: metal, accelerator: L40S, accelerators_per_node: 8, nodes: 2}"
    kind: Literal["metal"]
    accelerator: str
    accelerators_per_node: Devices
    nodes: Count
    fabric: Fabric = "tcp"
    network_gbps: PositiveFloat = 10.0
    usd_per_hour: UsdPerHour | None = None


FleetPool = Annotated[AwsPool | MetalPool, Field(discriminator="kind")]
PoolSettings = LocalPool | AwsPool | MetalPool
