"""What a pool of machines with accelerators offers: devices, nodes, network, price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.config.catalog import Accelerator, Catalog
from slipway.config.document import Origin
from slipway.config.errors import Problem, suggestion
from slipway.config.pools import AwsPool, FleetPool, MetalPool
from slipway.plan.capacity import Figure

OWNED = "owned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """One pool. `node_usd_per_hour` is what one node costs; `price_date` is ISO, "" without one."""

    pool: str
    kind: str
    instance: str  # catalog key; "" on owned machines
    accelerator_name: str  # catalog key
    accelerator: Accelerator
    accelerators_per_node: int
    nodes_min: int
    nodes_max: int
    market: str
    network_gbps: float
    node_usd_per_hour: Figure
    price_date: str
    warnings: tuple[str, ...] = ()

    @property
    def device_usd_per_hour(self) -> float:
        return self.node_usd_per_hour.value / self.accelerators_per_node

    @property
    def elastic(self) -> bool:
        """Whether a new replica may have to wait for a new node."""
        return self.nodes_max > self.nodes_min


def plan_supplies(
    pools: Mapping[str, FleetPool], catalog: Catalog, origin: Origin
) -> tuple[dict[str, Supply], list[Problem]]:
    """One Supply per pool, by name, and what the catalog does not know."""
    supplies: dict[str, Supply] = {}
    problems: list[Problem] = []
    for name, pool in sorted(pools.items()):
        made = (
            _aws(name, pool, catalog, origin)
            if isinstance(pool, AwsPool)
            else _metal(name, pool, catalog, origin)
        )
        if isinstance(made, Problem):
            problems.append(made)
        else:
            supplies[name] = made
    return supplies, problems


def _aws(name: str, pool: AwsPool, catalog: Catalog, origin: Origin) -> Supply | Problem:
    instance = catalog.instances.get(pool.instance)
    if instance is None:
        return _unknown("instance", pool.instance, catalog.instances, name, origin)
    price = pool.usd_per_hour or instance.usd_per_hour
    if price is None:
        return origin.problem(
            ("pools", name),
            f"has no price: catalog/instances.yaml knows none for {pool.instance}",
            fix="add `usd_per_hour:`, what one node costs",
        )
    declared = pool.usd_per_hour is not None
    listed = f"catalog/instances.yaml: {pool.instance} on demand, {instance.price_source}"
    return Supply(
        pool=name,
        kind=pool.kind,
        instance=pool.instance,
        accelerator_name=instance.accelerator,
        accelerator=catalog.accelerators[instance.accelerator],
        accelerators_per_node=instance.accelerators,
        nodes_min=pool.nodes.min,
        nodes_max=pool.nodes.max,
        market=pool.market,
        network_gbps=instance.network_gbps,
        node_usd_per_hour=_price(price, _declared_price(name, origin) if declared else listed),
        price_date="" if declared else instance.priced_on.isoformat(),
        warnings=() if declared else _market_warnings(name, pool),
    )


def _market_warnings(name: str, pool: AwsPool) -> tuple[str, ...]:
    if pool.market == "on_demand":
        return ()
    return (
        f"pool {name}: no {pool.market} price is known; its cost is that of {pool.instance} on"
        " demand (say it with usd_per_hour)",
    )


def _metal(name: str, pool: MetalPool, catalog: Catalog, origin: Origin) -> Supply | Problem:
    accelerator = catalog.accelerators.get(pool.accelerator)
    if accelerator is None:
        return _unknown("accelerator", pool.accelerator, catalog.accelerators, name, origin)
    declared = pool.usd_per_hour is not None
    return Supply(
        pool=name,
        kind=pool.kind,
        instance="",
        accelerator_name=pool.accelerator,
        accelerator=accelerator,
        accelerators_per_node=pool.accelerators_per_node,
        nodes_min=pool.nodes,
        nodes_max=pool.nodes,
        market=OWNED,
        network_gbps=pool.network_gbps,
        node_usd_per_hour=_price(
            pool.usd_per_hour or 0.0,
            _declared_price(name, origin) if declared else "owned, and no usd_per_hour is declared",
        ),
        price_date="",
        warnings=() if declared else (f"pool {name}: owned, and counted as free of cost",),
    )


def _unknown(
    key: str, value: str, known: Mapping[str, object], pool: str, origin: Origin
) -> Problem:
    """`known` is what catalog/<key>s.yaml has."""
    return origin.problem(
        ("pools", pool, key),
        f"is not in catalog/{key}s.yaml",
        value=value,
        fix=suggestion(value, known),
    )


def _declared_price(pool: str, origin: Origin) -> str:
    return f"{origin.source}: usd_per_hour of pool {pool}"


def _price(usd_per_hour: float, source: str) -> Figure:
    return Figure(value=usd_per_hour, unit="USD/h", basis="declared", source=source)
