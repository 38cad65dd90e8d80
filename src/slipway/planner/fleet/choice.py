"""Chooses how to run a model: tries every pool and layout that it may use, and ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slipway.config.load import Load
from slipway.plan.figures import DeviceMemory, Refusal
from slipway.planner.latency.calibration import Calibration
from slipway.planner.supply.supply import Supply

from .demand import Demand
from .feasibility import replica_memory
from .layouts import describe, tensor_layouts
from .option import Option, make_option, missed_goals

UNKNOWN = 0.5  # a miss is more than 1: the load over what the replicas sustain


def options_of(
    demand: Demand,
    supplies: Sequence[Supply],
    *,
    detection_s: float,
    calibration: Calibration | None = None,
) -> tuple[list[Option], list[Refusal]]:
    """(every layout on every pool that can hold the model; why other pools cannot)."""
    found: list[Option] = []
    refused: list[Refusal] = []
    for supply in supplies:
        options, reasons = pool_options(
            demand, supply, detection_s=detection_s, calibration=calibration
        )
        found += options
        if not options:
            refused.append(Refusal(pool=supply.pool, reasons=reasons))
    return found, refused


def ranked(options: Iterable[Option]) -> list[Option]:
    """Best first."""
    return sorted(options, key=_rank)


def best_of_pools(options: Iterable[Option]) -> dict[str, Option]:
    """The first option of every pool."""
    best: dict[str, Option] = {}
    for option in options:
        best.setdefault(option.supply.pool, option)
    return best


def meets_as_well(option: Option, other: Option) -> bool:
    """Whether it is no further from the goal."""
    return _distance(option) <= _distance(other)


def refusal(option: Option, chosen: Option) -> Refusal:
    """Why an option that could hold the model was not chosen."""
    return Refusal(pool=option.supply.pool, reasons=tuple(_drawbacks(option, chosen)))


def pool_options(
    demand: Demand, supply: Supply, *, detection_s: float, calibration: Calibration | None
) -> tuple[list[Option], tuple[str, ...]]:
    """(what the pool can hold, why it cannot hold the rest)."""
    unserved = demand.engine.accelerator_problems(supply.accelerator_name, supply.device)
    if unserved:
        return [], unserved
    options: list[Option] = []
    reasons: list[str] = []
    layouts = [demand.layout] if demand.layout else tensor_layouts(supply.accelerators_per_node)
    for layout in layouts:
        memory = replica_memory(demand, supply, layout)
        if isinstance(memory, DeviceMemory):
            options.append(
                make_option(
                    demand,
                    supply,
                    layout,
                    memory,
                    detection_s=detection_s,
                    calibration=calibration,
                )
            )
        else:
            reasons += [f"{describe(layout)}: {reason}" for reason in memory]
    return options, tuple(reasons)


def _rank(option: Option) -> tuple[float, float, float, int]:
    """Options that meet the goal first, then those without an estimate, then those that miss it,
    nearest first; then by cost, then smaller nodes first, then by devices."""
    return (
        _distance(option),
        option.cost.usd_per_hour.value,
        option.supply.node_usd_per_hour.value,
        option.layout.devices * option.replicas,
    )


def _distance(option: Option) -> float:
    """The distance from the goal: 0 where it is met or there is none."""
    goal, load = option.demand.goal, option.demand.load
    if option.meets_goal is False:
        return _miss(option, load)
    has_goal = load is not None and (goal.ttft_p95_ms is not None or goal.tpot_p95_ms is not None)
    return UNKNOWN if option.meets_goal is None and has_goal else 0.0


def _miss(option: Option, load: Load | None) -> float:
    """Load over capacity; infinite when the capacity is zero."""
    if option.serving is None or load is None:
        return 0.0
    capacity = option.replicas * option.serving.requests_per_s.value
    return load.requests_per_s / capacity if capacity else float("inf")


def _drawbacks(option: Option, chosen: Option) -> Iterator[str]:
    if option.meets_goal is False:
        yield from missed_goals(option)
    cost, least = option.cost.usd_per_hour.value, chosen.cost.usd_per_hour.value
    if cost > least:
        yield (
            f"costs {cost:.2f} USD/h ({option.replicas} x {describe(option.layout)}), not"
            f" {least:.2f} as {chosen.supply.pool}"
        )
    elif option.meets_goal is None and chosen.meets_goal:
        yield "promises nothing: its times were not measured"
    elif cost == least:
        yield (
            f"costs as much as {chosen.supply.pool} but has larger nodes, takes more devices or is"
            " listed later"
        )
