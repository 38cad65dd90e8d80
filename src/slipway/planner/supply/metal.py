"""Owned machines: listed by name and address, or only counted."""

from __future__ import annotations

from slipway.config.catalog import Catalog
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.metal import MetalPool
from slipway.plan.platform import Node

from .addresses import FIRST_PORT, LAST_PORT
from .model_store import stated_store
from .supply import MHZ_PER_CORE, OWNED, Supply, declared_price, price, unknown

FREE = "owned, and no usd_per_hour is declared"


def metal_supply(name: str, pool: MetalPool, catalog: Catalog, origin: Origin) -> Supply | Problem:
    accelerator = None
    if pool.accelerator is not None:
        accelerator = catalog.accelerators.get(pool.accelerator)
        if accelerator is None:
            return unknown("accelerator", pool.accelerator, catalog.accelerators, name, origin)
    declared = pool.usd_per_hour is not None
    nodes = pool.nodes or len(pool.hosts)
    return Supply(
        pool=name,
        kind=pool.kind,
        instance="",
        accelerator_name=pool.accelerator or "",
        accelerator=accelerator,
        accelerators_per_node=pool.accelerators_per_node,
        nodes_min=nodes,
        nodes_max=nodes,
        market=OWNED,
        network_gbps=pool.network_gbps,
        network_sustained_gbps=None,
        node_usd_per_hour=price(
            pool.usd_per_hour or 0.0, declared_price(name, origin) if declared else FREE
        ),
        price_date="",
        fabric=pool.fabric,
        node_memory_bytes=pool.memory or 0,
        node_cpu_mhz=(pool.cpu or 0) * MHZ_PER_CORE,
        hosts=tuple(
            Node(
                name=host.name,
                pool=name,
                address=host.address,
                min_dynamic_port=FIRST_PORT,
                max_dynamic_port=LAST_PORT,
            )
            for host in pool.hosts
        ),
        model_store=stated_store(pool.model_store),
        warnings=() if declared else (f"pool {name}: owned, and counted as free",),
    )
