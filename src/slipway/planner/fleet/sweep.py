"""One model on everything the catalog has: accelerators, layouts, their cost and latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from slipway.config.catalog import Catalog, Instance
from slipway.plan.capacity import Figure, Layout, Refusal
from slipway.planner.latency.calibration import Calibration

from .demand import Demand
from .feasibility import replica_memory
from .layouts import describe
from .option import Option, make_option
from .supply import Supply

MOST_REPLICAS = 10_000  # a sweep asks what would be needed, not what is allowed
TENSOR_SIZES = (1, 2, 4, 8)
PIPELINE_SIZES = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration. `answer_s` is TTFT plus every token of the mean answer; `pareto` when no
    other is both cheaper and faster."""

    instance: str
    accelerator: str
    layout: Layout
    replicas: int
    usd_per_hour: Figure
    usd_per_million_output_tokens: Figure
    ttft_ms: Figure
    tpot_ms: Figure
    answer_s: float
    meets_goal: bool | None
    pareto: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """`points` by cost; `refused` names instances and layouts that cannot hold the model."""

    model: str
    points: tuple[Point, ...]
    refused: tuple[Refusal, ...]


def sweep(demand: Demand, catalog: Catalog, *, calibration: Calibration | None = None) -> Sweep:
    """Every priced instance with every tensor and pipeline size.

    Raises ValueError when the demand has no load: without one there is nothing to compare.
    """
    if demand.load is None:
        raise ValueError(f"{demand.model} has no load")
    points: list[Point] = []
    refused: list[Refusal] = []
    for supply in priced_supplies(catalog):
        for layout in layouts(supply):
            asked = replace(demand, layout=layout, min_replicas=1, max_replicas=MOST_REPLICAS)
            memory = replica_memory(asked, supply, layout)
            if isinstance(memory, tuple):
                name = f"{supply.instance} {describe(layout)}"
                refused.append(Refusal(pool=name, reasons=memory))
                continue
            option = make_option(
                asked, supply, layout, memory, detection_s=0.0, calibration=calibration
            )
            point = _point(option, demand.load.output_tokens.mean)
            if point is not None:
                points.append(point)
    return Sweep(model=demand.model, points=with_pareto(points), refused=tuple(refused))


def priced_supplies(catalog: Catalog) -> Iterator[Supply]:
    """As many nodes as one likes of every instance with a price."""
    for name, instance in sorted(catalog.instances.items()):
        if instance.usd_per_hour is not None:
            yield _supply(name, instance, instance.usd_per_hour, catalog)


def layouts(supply: Supply) -> Iterator[Layout]:
    """Tensor sizes within a node; pipelines of as many."""
    for tensor in TENSOR_SIZES:
        if tensor <= supply.accelerators_per_node:
            for pipeline in PIPELINE_SIZES:
                yield Layout(tensor=tensor, pipeline=pipeline)


def with_pareto(points: Sequence[Point]) -> tuple[Point, ...]:
    """By cost; marked are those that no other one beats in cost and in time of an answer."""
    marked: list[Point] = []
    fastest = float("inf")
    for point in sorted(points, key=lambda point: (point.usd_per_hour.value, point.answer_s)):
        marked.append(replace(point, pareto=point.answer_s < fastest))
        fastest = min(fastest, point.answer_s)
    return tuple(marked)


def _point(option: Option, output_tokens: float) -> Point | None:
    serving, per_million = option.serving, option.cost.usd_per_million_output_tokens
    if serving is None or per_million is None:
        return None
    return Point(
        instance=option.supply.instance,
        accelerator=option.supply.accelerator_name,
        layout=option.layout,
        replicas=option.replicas,
        usd_per_hour=option.cost.usd_per_hour,
        usd_per_million_output_tokens=per_million,
        ttft_ms=serving.ttft_ms,
        tpot_ms=serving.tpot_ms,
        answer_s=(serving.ttft_ms.value + (output_tokens - 1) * serving.tpot_ms.value) / 1000,
        meets_goal=option.meets_goal,
        pareto=False,
    )


def _supply(name: str, instance: Instance, price: float, catalog: Catalog) -> Supply:
    return Supply(
        pool=name,
        kind=instance.cloud,
        instance=name,
        accelerator_name=instance.accelerator,
        accelerator=catalog.accelerators[instance.accelerator],
        accelerators_per_node=instance.accelerators,
        nodes_min=0,
        nodes_max=MOST_REPLICAS,
        market="on_demand",
        network_gbps=instance.network_gbps,
        node_usd_per_hour=Figure(
            value=price,
            unit="USD/h",
            basis="declared",
            source=f"catalog/instances.yaml: {name} on demand",
        ),
        price_date=instance.priced_on.isoformat(),
    )
