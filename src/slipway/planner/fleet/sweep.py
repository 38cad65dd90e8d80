"""One model on every instance of the catalog, in every layout and precision: cost and latency."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from slipway.config.aws import AwsPool, NodeRange
from slipway.config.catalog import Catalog
from slipway.config.document import Origin
from slipway.config.load import Load
from slipway.plan.figures import Figure, Layout, Precision, Refusal
from slipway.plan.platform import LatencyGoal
from slipway.planner.calibration import Calibration
from slipway.planner.quantization import KV_BYTES, SCHEMES, Scheme, describe_precision
from slipway.planner.supply.aws import aws_supply
from slipway.planner.supply.supply import Supply

from .cost import aged, nodes_cost
from .demand import Demand
from .feasibility import replica_memory
from .layouts import describe_layout
from .option import Option, make_option
from .packing import nodes_for_devices
from .placed import Placed, at_load

MOST_REPLICAS = 10_000  # a sweep shows what would be needed, not what is allowed
TENSOR_SIZES = (1, 2, 4, 8)
PIPELINE_SIZES = (1, 2, 4)
NARROWER_WEIGHTS = ("fp8", "awq")  # awq stands for gptq too: same bits, same kernels
KV_WIDTHS = ("bf16", "fp8")
CATALOG = "catalog/instances.yaml"
# The share of the time of an answer that a dearer point must save to be on the front. Less is no
# difference: the estimates themselves are off by more (planner/engines/vllm/latency/error_bars.py).
LEAST_GAIN = 0.05
NO_GOAL = LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration. `answer_s` is TTFT plus every token of the mean answer.

    `usd_per_hour` is the price of the `nodes` that must be bought for the replicas, whole ones, as
    is that of the tokens; `share_usd_per_hour` is the part of it for the devices that the replicas
    take. `as_declared` is True when the precision is the model file's. `meets_goal` is False where
    no number of replicas meets the goal; the cost is then that of the load without a goal. `pareto`
    is set by `with_pareto`.
    """

    instance: str
    accelerator: str
    layout: Layout
    precision: Precision
    as_declared: bool
    replicas: int
    nodes: int
    usd_per_hour: Figure
    share_usd_per_hour: Figure
    usd_per_million_output_tokens: Figure
    price_date: str  # ISO
    price_age_days: int | None  # None without a day to compare with
    ttft_ms: Figure
    tpot_ms: Figure
    answer_s: float
    meets_goal: bool | None
    pareto: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """`points` are sorted by cost; `refused` names the precisions and the instances with their
    layouts that cannot run the model. `goal_answer_s` is the time of an answer with exactly the
    goal's TTFT and TPOT, None unless both are stated."""

    model: str
    declared: Precision
    goal_answer_s: float | None
    points: tuple[Point, ...]
    refused: tuple[Refusal, ...]


def sweep(
    demand: Demand,
    catalog: Catalog,
    *,
    calibration: Calibration | None = None,
    today: datetime.date | None = None,
) -> Sweep:
    """Every priced instance with every tensor and pipeline size in every precision.

    Prices have their age at `today`. Raises ValueError when the demand has no load: without one
    there is nothing to compare.
    """
    if demand.load is None:
        raise ValueError(f"{demand.model} has no load")
    points: list[Point] = []
    refused = list(_refused_weights(demand))
    for precision in precisions(demand):
        asked = replace(demand, precision=precision, min_replicas=1, max_replicas=MOST_REPLICAS)
        as_declared = precision == demand.precision
        for supply in priced_supplies(catalog):
            for layout in layouts(supply):
                made = _option(asked, supply, layout, calibration)
                if isinstance(made, Option):
                    points += _points(made, as_declared, demand.load, today)
                else:
                    name = f"{supply.instance} {describe_layout(layout)}"
                    if not as_declared:
                        name += f", {describe_precision(precision)}"
                    refused.append(Refusal(pool=name, reasons=made))
    return Sweep(
        model=demand.model,
        declared=demand.precision,
        goal_answer_s=_goal_answer_s(demand.goal, demand.load),
        points=with_pareto(points),
        refused=tuple(refused),
    )


def precisions(demand: Demand) -> tuple[Precision, ...]:
    """The declared precision first, then the published weights and narrower ones, each with a KV
    cache of 16 and of 8 bits. Precisions that differ in name only (fp16, bf16) count once."""
    architecture = demand.architecture
    refused = demand.engine.weights_problems
    narrower = [each for each in NARROWER_WEIGHTS if not refused(architecture, each)]
    weights = [architecture.published_weights, *narrower]
    distinct: dict[tuple[Scheme, int], Precision] = {}
    for precision in (
        demand.precision,
        *(Precision(weights=each, kv=kv) for each in weights for kv in KV_WIDTHS),
    ):
        same = (SCHEMES[precision.weights], KV_BYTES[precision.kv])
        distinct.setdefault(same, precision)
    return tuple(distinct.values())


def priced_supplies(catalog: Catalog) -> Iterator[Supply]:
    """Every instance with a price, in unlimited number."""
    for name, instance in sorted(catalog.instances.items()):
        if instance.usd_per_hour is not None and instance.accelerator is not None:
            pool = AwsPool(kind="aws", instance=name, nodes=NodeRange(max=MOST_REPLICAS))
            supply = aws_supply(name, pool, (), catalog, Origin(source=CATALOG))
            assert isinstance(supply, Supply), "it is in the catalog, with a price"  # noqa: S101
            yield supply


def layouts(supply: Supply) -> Iterator[Layout]:
    """Tensor sizes within a node, each with every pipeline size."""
    for tensor in TENSOR_SIZES:
        if tensor <= supply.accelerators_per_node:
            for pipeline in PIPELINE_SIZES:
                yield Layout(tensor=tensor, pipeline=pipeline)


def with_pareto(points: Sequence[Point]) -> tuple[Point, ...]:
    """Sorted by cost; marks the points that are faster by LEAST_GAIN than every cheaper one that is
    marked.

    A point with fewer bits of weights or KV cache gives other answers, so it never beats one with
    more. Points that miss the goal are marked only if all do.
    """
    all_miss = all(point.meets_goal is False for point in points)
    marked: list[Point] = []
    fastest: dict[tuple[int, int], float] = {}  # by width
    for point in sorted(points, key=_rank):
        weights, kv = _width(point.precision)
        rivals = [s for width, s in fastest.items() if width[0] >= weights and width[1] >= kv]
        comparable = all_miss or point.meets_goal is not False
        pareto = comparable and point.answer_s <= (1 - LEAST_GAIN) * min(rivals, default=math.inf)
        if pareto:
            fastest[weights, kv] = point.answer_s
        marked.append(replace(point, pareto=pareto))
    return tuple(marked)


def _rank(point: Point) -> tuple[float, float, int, int, int]:
    """By cost, then by time, then more bits first, then smaller instances."""
    weights, kv = _width(point.precision)
    return point.usd_per_hour.value, point.answer_s, -weights, -kv, -point.nodes


def _width(precision: Precision) -> tuple[int, int]:
    """(bits of a weight, bytes of a KV value)"""
    return SCHEMES[precision.weights].bits, KV_BYTES[precision.kv]


def _refused_weights(demand: Demand) -> Iterator[Refusal]:
    for weights in NARROWER_WEIGHTS:
        reasons = demand.engine.weights_problems(demand.architecture, weights)
        if reasons:
            yield Refusal(pool=f"{weights} weights", reasons=reasons)


def _option(
    asked: Demand, supply: Supply, layout: Layout, calibration: Calibration | None
) -> Option | tuple[str, ...]:
    """The option for such a replica, or why it is impossible."""
    demand = replace(asked, layout=layout)
    memory = replica_memory(demand, supply, layout, calibration)
    if isinstance(memory, tuple):
        return memory

    def made(demand: Demand) -> Option:
        return make_option(demand, supply, layout, memory, detection_s=0.0, calibration=calibration)

    option = made(demand)
    if option.serving is not None and not option.serving.requests_per_s.value:
        return replace(made(replace(demand, goal=NO_GOAL)), meets_goal=False)
    return option


def _goal_answer_s(goal: LatencyGoal, load: Load) -> float | None:
    if goal.ttft_p95_ms is None or goal.tpot_p95_ms is None:
        return None
    return _answer_s(goal.ttft_p95_ms, goal.tpot_p95_ms, load)


def _answer_s(ttft_ms: float, tpot_ms: float, load: Load) -> float:
    return (ttft_ms + (load.output_tokens.mean - 1) * tpot_ms) / 1000


def _points(
    option: Option, as_declared: bool, load: Load, today: datetime.date | None
) -> Iterator[Point]:
    """One point, or none where there is nothing to compare."""
    serving, supply = option.serving, option.supply
    nodes = nodes_for_devices(supply, [Placed(option=option, refused=())], at_load)
    bought = aged(nodes_cost(supply, nodes, load), today)
    per_million = bought.usd_per_million_output_tokens
    if serving is None or per_million is None:
        return
    yield Point(
        instance=supply.instance,
        accelerator=supply.accelerator_name,
        layout=option.layout,
        precision=option.demand.precision,
        as_declared=as_declared,
        replicas=option.replicas,
        nodes=nodes,
        usd_per_hour=bought.usd_per_hour,
        share_usd_per_hour=option.cost.usd_per_hour,
        usd_per_million_output_tokens=per_million,
        price_date=bought.price_date,
        price_age_days=bought.price_age_days,
        ttft_ms=serving.ttft_ms,
        tpot_ms=serving.tpot_ms,
        answer_s=_answer_s(serving.ttft_ms.value, serving.tpot_ms.value, load),
        meets_goal=option.meets_goal,
        pareto=False,
    )


def declared_front(found: Sweep) -> list[Point]:
    """The Pareto front of the declared precision."""
    return [point for point in found.points if point.pareto and point.as_declared]


def cheapest_of_others(found: Sweep) -> list[Point]:
    """The cheapest point of each other precision; the fastest of equally cheap ones."""
    cheapest: dict[Precision, Point] = {}
    for point in found.points:
        if point.pareto and not point.as_declared:
            cheapest.setdefault(point.precision, point)
    return list(cheapest.values())
