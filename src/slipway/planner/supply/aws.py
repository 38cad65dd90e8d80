"""Pools of cloud instances, as listed in the catalog."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.config.aws import AwsPool
from slipway.config.catalog import Catalog
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.plan.platform import Node
from slipway.planner.fabric.spec import aws_fabric
from slipway.planner.units import GIB

from .aws_store import aws_store
from .local import AGENT_BYTES, AGENTS_PER_HOST, MACHINE_RESERVE_BYTES
from .supply import MHZ_PER_CORE, Supply, declared_price, price, unknown

# Memory that the system and the agents take, which replicas on processors cannot use.
HOST_RESERVE_BYTES = MACHINE_RESERVE_BYTES + AGENTS_PER_HOST * AGENT_BYTES


def aws_supply(
    name: str, pool: AwsPool, hosts: Sequence[Node], catalog: Catalog, origin: Origin
) -> Supply | Problem:
    """`hosts` are those of a fixed pool, where its network is known."""
    instance = catalog.instances.get(pool.instance)
    if instance is None:
        return unknown("instance", pool.instance, catalog.instances, name, origin)
    usd_per_hour = pool.usd_per_hour or instance.usd_per_hour
    if usd_per_hour is None:
        return origin.problem(
            ("pools", name),
            f"has no price: catalog/instances.yaml has none for {pool.instance}",
            fix="add `usd_per_hour:`, the cost of one node",
        )
    store = aws_store(name, pool, instance, origin)
    if isinstance(store, Problem):
        return store
    declared = pool.usd_per_hour is not None
    listed = f"catalog/instances.yaml: {pool.instance} on demand, {instance.price_source}"
    accelerator = instance.accelerator
    fabric = aws_fabric(pool.fabric, instance)
    return Supply(
        pool=name,
        kind=pool.kind,
        instance=pool.instance,
        accelerator_name=accelerator or "",
        accelerator=catalog.accelerators[accelerator] if accelerator else None,
        accelerators_per_node=instance.accelerators,
        nodes_min=pool.nodes_min,
        nodes_max=pool.nodes_max,
        market=pool.market,
        network_gbps=instance.network_gbps,
        network_sustained_gbps=instance.network_sustained_gbps,
        node_usd_per_hour=price(usd_per_hour, declared_price(name, origin) if declared else listed),
        price_date="" if declared else instance.priced_on.isoformat(),
        link_latency_us=catalog.fabrics[fabric.kind].latency_us,
        fabric=fabric,
        fabric_limits=pool.fabric.check,
        rail_gbps=(instance.network_sustained_gbps or instance.network_gbps)
        / max(1, instance.efa_interfaces),
        quota_nodes=pool.quota,
        hosts=tuple(hosts),
        joins_by_itself=not pool.fixed,
        node_memory_bytes=instance.memory_gib * GIB - (0 if accelerator else HOST_RESERVE_BYTES),
        node_cpu_mhz=instance.vcpus * MHZ_PER_CORE,
        model_store=store,
        warnings=() if declared else _market_warnings(name, pool),
    )


def _market_warnings(name: str, pool: AwsPool) -> tuple[str, ...]:
    if pool.market == "on_demand":
        return ()
    return (
        f"pool {name}: no {pool.market} price is known; {pool.instance} is counted"
        " at its on-demand price (usd_per_hour overrides it)",
    )
