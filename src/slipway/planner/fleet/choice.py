"""Which way to run a model: every pool and layout it may have is tried, the cheapest come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipway.config.load import Load
from slipway.plan.capacity import DeviceMemory, Refusal
from slipway.planner.latency.calibration import Calibration

from .demand import Demand
from .feasibility import replica_memory
from .layouts import describe, tensor_layouts
from .option import Option, make_option, missed_goals
from .supply import Supply


def options_of(
    demand: Demand,
    supplies: Sequence[Supply],
    *,
    detection_s: float,
    calibration: Calibration | None = None,
) -> tuple[list[Option], list[Refusal]]:
    """(the best option of every pool that can hold the model, best first; why others cannot)."""

    def rank(option: Option) -> tuple[float, float, int]:
        return _rank(option, demand.load)

    best: list[Option] = []
    refused: list[Refusal] = []
    for supply in supplies:
        options, reasons = pool_options(
            demand, supply, detection_s=detection_s, calibration=calibration
        )
        if options:
            best.append(min(options, key=rank))
        else:
            refused.append(Refusal(pool=supply.pool, reasons=reasons))
    return sorted(best, key=rank), refused


def refusal(option: Option, chosen: Option, demand: Demand) -> Refusal:
    """Why an option that could hold the model was not chosen."""
    return Refusal(pool=option.supply.pool, reasons=tuple(_drawbacks(option, chosen, demand)))


def pool_options(
    demand: Demand, supply: Supply, *, detection_s: float, calibration: Calibration | None
) -> tuple[list[Option], tuple[str, ...]]:
    """(what the pool can hold, why it cannot hold the rest)."""
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


def _rank(option: Option, load: Load | None) -> tuple[float, float, int]:
    """Within the goal first, else nearest to it; then by cost, then by devices."""
    return (
        _miss(option, load) if option.meets_goal is False else 0.0,
        option.cost.usd_per_hour.value,
        option.layout.devices * option.replicas,
    )


def _miss(option: Option, load: Load | None) -> float:
    """How many times its capacity the load is; more than any when it has none."""
    if option.serving is None or load is None:
        return 0.0
    capacity = option.replicas * option.serving.requests_per_s.value
    return load.requests_per_s / capacity if capacity else float("inf")


def _drawbacks(option: Option, chosen: Option, demand: Demand) -> Iterator[str]:
    if option.meets_goal is False:
        yield from missed_goals(option, demand)
    cost, least = option.cost.usd_per_hour.value, chosen.cost.usd_per_hour.value
    if cost > least:
        yield (
            f"costs {cost:.2f} USD/h ({option.replicas} x {describe(option.layout)}), not"
            f" {least:.2f} as {chosen.supply.pool}"
        )
    elif cost == least:
        yield f"costs as much as {chosen.supply.pool} and takes more devices or comes later"
