"""Chooses how to run a model: tries every pool and layout that it may use, and ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slipway.config.load import Load
from slipway.plan.figures import DeviceMemory, Layout, Refusal
from slipway.planner.calibration import Calibration
from slipway.planner.supply.supply import Supply

from .demand import Demand
from .feasibility import replica_memory
from .layouts import describe_layout, tensor_layouts
from .option import Option, make_option, missed_goals

UNKNOWN = 0.5  # a miss is more than 1: the load over what the replicas sustain


def best_options(
    demand: Demand,
    supplies: Iterable[Supply],
    *,
    detection_s: float,
    calibration: Calibration | None = None,
) -> tuple[list[Option], list[Refusal]]:
    """(the best option of every pool that can hold the model; why others cannot)."""
    found: list[Option] = []
    refused: list[Refusal] = []
    for supply in supplies:
        best = _best_option(demand, supply, detection_s=detection_s, calibration=calibration)
        if isinstance(best, Option):
            found.append(best)
        else:
            refused.append(Refusal(pool=supply.pool, reasons=best))
    return found, refused


def every_option(
    demand: Demand,
    supplies: Iterable[Supply],
    *,
    detection_s: float,
    calibration: Calibration | None = None,
) -> list[Option]:
    """Every layout on every pool that can hold the model."""
    return [
        make_option(
            demand, supply, layout, memory, detection_s=detection_s, calibration=calibration
        )
        for supply in supplies
        if not _unserved(demand, supply)
        for layout in _layouts(demand, supply)
        if isinstance(memory := replica_memory(demand, supply, layout, calibration), DeviceMemory)
    ]


def ranked(options: Iterable[Option]) -> list[Option]:
    """Best first."""
    return sorted(options, key=_rank)


def meets_as_well(option: Option, other: Option) -> bool:
    """Whether the option is at least as close to the goal as the other one."""
    return _distance(option) <= _distance(other)


def refusal(option: Option, chosen: Option) -> Refusal:
    """Why an option that could hold the model was not chosen."""
    return Refusal(pool=option.supply.pool, reasons=tuple(_drawbacks(option, chosen)))


def _best_option(
    demand: Demand, supply: Supply, *, detection_s: float, calibration: Calibration | None
) -> Option | tuple[str, ...]:
    """The best layout on the pool, or why it can hold none. Tries none that cannot be better."""
    if unserved := _unserved(demand, supply):
        return unserved
    best: Option | None = None
    reasons: list[str] = []
    for layout in _layouts(demand, supply):  # the smallest first
        if best is not None and _beats_any_of(best, layout):
            break
        memory = replica_memory(demand, supply, layout, calibration)
        if isinstance(memory, DeviceMemory):
            option = make_option(
                demand, supply, layout, memory, detection_s=detection_s, calibration=calibration
            )
            best = option if best is None else min(best, option, key=_rank)
        else:
            reasons += [f"{describe_layout(layout)}: {reason}" for reason in memory]
    return tuple(reasons) if best is None else best


def _unserved(demand: Demand, supply: Supply) -> tuple[str, ...]:
    return demand.engine.accelerator_problems(supply.accelerator_name, supply.device)


def _layouts(demand: Demand, supply: Supply) -> Iterable[Layout]:
    return [demand.layout] if demand.layout else tensor_layouts(supply.accelerators_per_node)


def _beats_any_of(option: Option, layout: Layout) -> bool:
    """Whether no number of replicas in the layout, on the same pool, is better: even the fewest
    take as many devices as an option that meets the goal."""
    least_devices = layout.devices * option.demand.min_replicas
    return _distance(option) == 0 and least_devices >= option.layout.devices * option.replicas


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
            f"costs {cost:.2f} USD/h ({option.replicas} x {describe_layout(option.layout)}), not"
            f" {least:.2f} as {chosen.supply.pool}"
        )
    elif option.meets_goal is None and chosen.meets_goal:
        yield "promises nothing: its times were not measured"
    elif cost == least:
        yield (
            f"costs as much as {chosen.supply.pool} but has larger nodes, takes more devices or is"
            " listed later"
        )
