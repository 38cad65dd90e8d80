"""The devices that run a replica, and what joins them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.config.catalog import Accelerator
from slipway.plan.figures import Layout
from slipway.planner.supply.supply import Supply

DEVICES_PER_NODE = 8  # of the servers that models are split in; the same for all clouds and vendors


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Joins the nodes of a replica. `gb_per_s` is what a node sustains, in each direction, and
    `latency_us` what a message waits beside: kinds of fabrics differ by nothing else."""

    devices_per_node: int  # of the replica
    gb_per_s: float
    latency_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Devices of one kind. `network` is None for a replica on one node, which sends nothing over
    it."""

    accelerator_name: str  # catalog key
    accelerator: Accelerator
    network: Network | None = None


def replica_hardware(supply: Supply, layout: Layout) -> Hardware:
    """What a replica in this layout runs on. Replicas that differ only in a network they do not use
    have equal hardware, so that estimates of one serve all."""
    return Hardware(
        accelerator_name=supply.accelerator_name,
        accelerator=supply.device,
        network=replica_network(supply, layout),
    )


def replica_network(supply: Supply, layout: Layout) -> Network | None:
    """What joins the hosts of a replica; None on one host. Without accelerators a host counts as
    one device."""
    if supply.hosts_of(layout) == 1:
        return None
    return Network(
        devices_per_node=layout.devices_on_each_node(supply.accelerators_per_node or 1),
        # Pools on this machine state no rate: what loopback takes is not counted.
        gb_per_s=supply.sustained_gbps / 8 or math.inf,
        latency_us=supply.link_latency_us,
    )
