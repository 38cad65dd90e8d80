"""Pools as they will be built: nodes, what the models use of them, and cost."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.config.artifacts import Artifacts
from slipway.config.catalog import Catalog
from slipway.plan.figures import Figure
from slipway.plan.platform import DevicePluginPlan, NodeRange, Pool

from .fabric.check import plan_check
from .fleet.packing import devices, nodes_needed
from .fleet.placed import Count, Placed, at_load, at_maximum, at_minimum, in_use
from .supply.supply import Supply
from .units import MIB
from .wording import counted

FIGURES_PORT = 9400  # that of NVIDIA's DCGM exporter


def plan_pool(
    supply: Supply, placed: Sequence[Placed], catalog: Catalog, artifacts: Artifacts
) -> Pool:
    """The pool with its models. Its cost is that of its nodes at the declared load."""
    models = in_use(supply, placed)
    return Pool(
        name=supply.pool,
        kind=supply.kind,
        hosts=supply.hosts,
        range=None if supply.hosts else NodeRange(min=supply.nodes_min, max=supply.nodes_max),
        memory_bytes=supply.node_memory_bytes,
        cpu_mhz=supply.node_cpu_mhz,
        accelerator=supply.accelerator_name,
        accelerator_names=supply.accelerator.reported_as if supply.accelerator else (),
        accelerator_memory_bytes=supply.accelerator.memory_mib * MIB if supply.accelerator else 0,
        accelerators_per_node=supply.accelerators_per_node,
        accelerators_used=devices(models, at_minimum) if supply.accelerator else 0,
        accelerators_used_at_most=devices(models, at_maximum) if supply.accelerator else 0,
        instance=supply.instance,
        market=supply.market,
        usd_per_hour=_usd_per_hour(supply, placed),
        fabric=supply.fabric,
        quota_nodes=supply.quota_nodes,
        device_plugin=_device_plugin(supply, artifacts),
        model_store=supply.model_store,
        image=supply.image,
        fabric_check=plan_check(supply, models, catalog, artifacts),
    )


def _device_plugin(supply: Supply, artifacts: Artifacts) -> DevicePluginPlan | None:
    if supply.accelerator is None:
        return None
    return DevicePluginPlan(
        vendor=supply.accelerator.vendor,
        bundle=artifacts.bundles["devices"],
        environment=artifacts.environments["devices"],
        figures_port=FIGURES_PORT,
    )


def usd_per_hour_at_most(supply: Supply, placed: Sequence[Placed]) -> float:
    """The cost with every model at its maximum."""
    nodes = _nodes(supply, placed, at_maximum)
    return nodes * supply.node_usd_per_hour.value


def _usd_per_hour(supply: Supply, placed: Sequence[Placed]) -> Figure:
    node = supply.node_usd_per_hour
    nodes = _nodes(supply, placed, at_load)
    return Figure(
        value=nodes * node.value,
        unit="USD/h",
        basis="declared",
        source=f"{counted(nodes, 'node')} for the declared load x {node.value:g} USD/h"
        f" ({node.source})",
    )


def _nodes(supply: Supply, placed: Sequence[Placed], replicas: Count) -> int:
    """The nodes that the replicas need, within the pool's own limits."""
    if not supply.elastic:
        return supply.nodes_max
    needed = nodes_needed(supply, placed, replicas)
    return max(supply.nodes_min, min(needed, supply.nodes_max))
