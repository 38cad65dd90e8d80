"""Owned machines: listed by name and address, or only counted."""

from __future__ import annotations

from slipway.config.catalog import Accelerator, Catalog
from slipway.config.container import BARE
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.fabric import TCP
from slipway.config.metal import MetalPool
from slipway.plan.platform import ContainerImage
from slipway.planner.fabric.spec import metal_fabric

from .addresses import listed_nodes
from .model_store import stated_store
from .supply import MHZ_PER_CORE, OWNED, Supply, declared_price, price, unknown

IN_IMAGES_ONLY = ("amd",)  # vendors for which no package index has engines
FREE = "owned, and no usd_per_hour is declared"


def metal_supply(name: str, pool: MetalPool, catalog: Catalog, origin: Origin) -> Supply | Problem:
    accelerator = None
    if pool.accelerator is not None:
        accelerator = catalog.accelerators.get(pool.accelerator)
        if accelerator is None:
            return unknown("accelerator", pool.accelerator, catalog.accelerators, name, origin)
        if _cannot_be_bare(pool, accelerator):
            return origin.problem(
                ("pools", name, "runtime"),
                f"cannot be bare on {pool.accelerator}: engines for {accelerator.vendor} come in"
                " images",
                value=pool.runtime,
                fix="set `runtime: container` and `image: NAME@sha256:…`",
            )
    declared = pool.usd_per_hour is not None
    nodes = pool.nodes or len(pool.hosts)
    fabric = metal_fabric(pool.fabric, pool.accelerators_per_node)
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
        link_latency_us=catalog.fabrics[fabric.kind].latency_us,
        fabric=fabric,
        fabric_limits=pool.fabric.check,
        rail_gbps=_rail_gbps(pool),
        node_memory_bytes=pool.memory or 0,
        node_cpu_mhz=(pool.cpu or 0) * MHZ_PER_CORE,
        hosts=listed_nodes(name, pool.hosts),
        model_store=stated_store(pool.model_store),
        image=_image(pool),
        warnings=() if declared else (f"pool {name}: owned, and counted as free",),
    )


def _cannot_be_bare(pool: MetalPool, accelerator: Accelerator) -> bool:
    """Pools that only count their hosts can be planned without a runtime."""
    stated = bool(pool.hosts) or "runtime" in pool.model_fields_set
    return stated and pool.runtime == BARE and accelerator.vendor in IN_IMAGES_ONLY


def _rail_gbps(pool: MetalPool) -> float | None:
    """The rate of a host is that of its rails together. How many RDMA uses is known only where the
    pool lists them."""
    if "network_gbps" not in pool.model_fields_set:
        return None
    if pool.fabric.kind == TCP:
        return pool.network_gbps / max(1, len(pool.fabric.interfaces))
    return pool.network_gbps / len(pool.fabric.hcas) if pool.fabric.hcas else None


def _image(pool: MetalPool) -> ContainerImage | None:
    if pool.image is None:
        return None
    return ContainerImage(name=pool.image, archive=pool.image_archive or "")
