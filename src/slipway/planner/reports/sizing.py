"""What a plan buys for one model under a given load."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.plan.platform import ModelPlan, PlannedLoad, PlatformPlan
from slipway.planner.engines.registry import ENGINES
from slipway.planner.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """`replicas` are those that the plan runs: what the load needs, within replicas.min and max.
    They are None where the plan has no estimate of this model on this pool, and the price (USD per
    hour) where nothing is bought."""

    load: PlannedLoad
    pool: str
    instance: str  # catalog key; "" on machines that are owned
    needed: int | None
    replicas: int | None
    meets_goal: bool | None
    usd_per_hour: float | None
    price_date: str
    sentence: str


def size(plan: PlatformPlan, name: str, *, of_load: str) -> Sizing:
    """The sizing of a model from a plan for the load that `of_load` describes: "4.1 requests/s, the
    most it served". KeyError if the plan has no such model."""
    model = next((each for each in plan.models if each.name == name), None)
    if model is None or model.load is None:
        raise KeyError(name)
    needed = None if model.serving is None else round(model.replicas_needed.value)
    replicas = None if needed is None else _within(model, needed)
    priced = bool(model.cost.price_date)
    return Sizing(
        load=model.load,
        pool=model.pool,
        instance=model.instance,
        needed=needed,
        replicas=replicas,
        meets_goal=model.meets_goal,
        usd_per_hour=model.cost.usd_per_hour.value if priced and replicas is not None else None,
        price_date=model.cost.price_date if priced else "",
        sentence=_sentence(plan, model, needed, replicas, of_load),
    )


def _within(model: ModelPlan, needed: int) -> int:
    return min(max(needed, model.scaling.min_replicas), model.scaling.max_replicas)


def _sentence(
    plan: PlatformPlan, model: ModelPlan, needed: int | None, replicas: int | None, of_load: str
) -> str:
    if needed is None or replicas is None:
        return (
            f"For {of_load}, the plan cannot say what to buy: it has no estimate for {model.name}"
            f" on pool {model.pool}, and keeps {_replicas(model.scaling.min_replicas)}"
            f"{_calibration(plan, model)}"
        )
    return (
        f"For {of_load}, the plan would buy {_replicas(replicas)} on {_where(model)}"
        f"{_price(model)}{_bounds(model, needed)}"
    )


def _calibration(plan: PlatformPlan, model: ModelPlan) -> str:
    """Figures of a simulated engine are not kept."""
    if ENGINES[model.replica.document["engine"]["kind"]].simulated:
        return ""
    return f"; slipway plan --calibrate -s {plan.environment}, run now, lets it estimate"


def _replicas(count: int) -> str:
    return counted(count, "replica")


def _where(model: ModelPlan) -> str:
    each = f"{model.layout.devices} x {model.accelerator}" if model.accelerator else "processors"
    machine = f", {model.instance}" if model.instance else ""
    return f"pool {model.pool} ({each}{machine})"


def _price(model: ModelPlan) -> str:
    """Without prices nothing is bought: the machines are the user's own."""
    cost = model.cost
    if not cost.price_date:
        return ", machines that cost nothing more"
    return f" for {cost.usd_per_hour.value:,.2f} USD/h (prices of {cost.price_date})"


def _bounds(model: ModelPlan, needed: int) -> str:
    scaling = model.scaling
    if needed < scaling.min_replicas:
        return f"; {needed} would do, but replicas.min is {scaling.min_replicas}"
    if needed > scaling.max_replicas:
        return (
            f"; the load needs {_replicas(needed)}, but replicas.max is {scaling.max_replicas}:"
            f" raise it"
        )
    return "" if model.meets_goal is not False else "; with them it misses the goal of its slo"
