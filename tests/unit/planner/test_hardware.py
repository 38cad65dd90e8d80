"""What a replica's devices send over: read from its pool."""

from __future__ import annotations

from dataclasses import replace

from slipway.config.aws import AwsPool, NodeRange
from slipway.config.document import Origin
from slipway.config.metal import MetalPool
from slipway.plan.figures import Layout
from slipway.planner.hardware import Network, replica_hardware
from slipway.planner.supply.aws import aws_supply
from slipway.planner.supply.metal import metal_supply
from slipway.planner.supply.supply import Supply
from tests.unit.planner.architectures import CATALOG


def _aws(instance: str) -> Supply:
    pool = AwsPool(kind="aws", instance=instance, nodes=NodeRange(max=4))
    supply = aws_supply("gpus", pool, (), CATALOG, Origin(source="test"))
    assert isinstance(supply, Supply)
    return supply


def test_a_pair_of_machines_is_joined_by_the_network_that_each_sustains() -> None:
    pair = replica_hardware(_aws("g6.xlarge"), Layout(pipeline=2))
    assert pair.accelerator_name == "L4"
    assert pair.network == Network(devices_per_node=1, gb_per_s=2.5 / 8, latency_us=50)
    assert CATALOG.instances["g6.xlarge"].network_gbps == 10


def test_a_replica_on_one_node_does_not_depend_on_the_network() -> None:
    layout, supply = Layout(tensor=4, pipeline=2), _aws("g6.48xlarge")
    assert replica_hardware(supply, layout) == replica_hardware(
        replace(supply, network_gbps=1.0), layout
    )


def test_owned_machines_have_the_network_that_their_pool_states() -> None:
    pool = MetalPool(
        kind="metal", accelerator="L40S", accelerators_per_node=8, nodes=2, network_gbps=100
    )
    supply = metal_supply("rack", pool, CATALOG, Origin(source="test"))
    assert isinstance(supply, Supply)
    hardware = replica_hardware(supply, Layout(tensor=4, pipeline=4))
    assert hardware.network == Network(devices_per_node=8, gb_per_s=12.5, latency_us=50)
