"""The capacity plan of an environment: what every model needs, costs and promises."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence

from slipway.config.environment import EnvironmentSettings, FleetSettings
from slipway.config.errors import Problem, raise_if_any
from slipway.config.inputs import PlanInputs
from slipway.plan.capacity import (
    CapacityPlan,
    Cost,
    ModelCapacity,
    PoolCapacity,
    Refusal,
)
from slipway.planner.fleet.choice import options_of
from slipway.planner.fleet.cost import make_cost, old_price_warnings, oldest, output_tokens_per_s
from slipway.planner.fleet.demand import Demand, plan_demand
from slipway.planner.fleet.occupancy import Placed, assign, crowded_warnings, pool_capacity
from slipway.planner.fleet.option import missed_goals, sequences_at_mean_length
from slipway.planner.fleet.replicas import utilization
from slipway.planner.fleet.supply import Supply, plan_supplies
from slipway.planner.latency.calibration import Calibration, make_calibration
from slipway.planner.memory.parameters import count

from .local_capacity import local_capacity
from .platform import make_plan


def plan_capacity(
    inputs: PlanInputs,
    *,
    today: datetime.date | None = None,
) -> CapacityPlan:
    """What the environment's models need, cost and promise.

    Pure: the same inputs give the same plan. What was measured (inputs.calibration) overrides
    estimates. Prices older than 90 days at `today` are warned of.
    Raises ConfigError with everything that cannot be.
    """
    settings = inputs.environment.settings
    calibration = calibration_of(inputs)
    if not isinstance(settings, FleetSettings):
        return local_capacity(inputs, make_plan(inputs), calibration)
    supplies, problems = plan_supplies(settings.pools, inputs.catalog, inputs.environment.origin)
    demands, demand_problems = _demands(inputs, settings)
    raise_if_any([*problems, *demand_problems])
    placed, placement_problems = _place_all(inputs, settings, supplies, demands, calibration)
    raise_if_any(placement_problems)
    pools = tuple(pool_capacity(supply, placed) for supply in supplies.values())
    paid = [supplies[pool.pool] for pool in pools if pool.usd_per_hour.value or pool.nodes_min]
    cost = _total_cost(pools, placed, paid)
    return CapacityPlan(
        environment=inputs.environment.name,
        pools=pools,
        models=tuple(_model(each) for each in placed),
        cost=cost,
        warnings=(
            *(old_price_warnings(paid, today) if today else ()),
            *(warning for supply in paid for warning in supply.warnings),
            *(text for supply in paid for text in crowded_warnings(supply, placed)),
            *_idle(pools, placed),
            *_over_budget(settings, cost),
        ),
    )


def calibration_of(inputs: PlanInputs) -> Calibration:
    """What was measured of the environment: nothing before the first calibration."""
    if inputs.calibration is None:
        return Calibration()
    return make_calibration(inputs.calibration, inputs.catalog)


def _demands(
    inputs: PlanInputs, settings: FleetSettings
) -> tuple[dict[str, Demand], list[Problem]]:
    demands: dict[str, Demand] = {}
    problems: list[Problem] = []
    for name, model in sorted(inputs.models.items()):
        made = plan_demand(model, settings.models[name], inputs.catalog.models, inputs.traces)
        if isinstance(made, Demand):
            demands[name] = made
        else:
            problems += made
    return demands, problems


def _place_all(
    inputs: PlanInputs,
    settings: FleetSettings,
    supplies: Mapping[str, Supply],
    demands: Mapping[str, Demand],
    calibration: Calibration,
) -> tuple[list[Placed], list[Problem]]:
    """Every model on the cheapest of its pools with room; those with the fewest pools go first."""
    placed: list[Placed] = []
    problems: list[Problem] = []
    candidates = {name: settings.models[name].candidates for name in demands}
    for name in sorted(demands, key=lambda name: (len(candidates[name]), name)):
        options, refused = options_of(
            demands[name],
            [supplies[pool] for pool in candidates[name]],
            detection_s=detection_s(settings),
            calibration=calibration,
        )
        where = assign(demands[name], options, refused, placed)
        if isinstance(where, Placed):
            placed.append(where)
        else:
            problems.append(_nowhere(inputs, settings, name, where))
    return sorted(placed, key=lambda each: each.demand.model), problems


def detection_s(settings: EnvironmentSettings) -> float:
    """Until the autoscaler sees a growing load: a scrape and an evaluation, both just missed."""
    scrape, evaluation = settings.monitoring, settings.autoscaling
    return float(scrape.scrape_interval_s + evaluation.evaluation_interval_s)


def _nowhere(
    inputs: PlanInputs, settings: FleetSettings, name: str, refused: Iterable[Refusal]
) -> Problem:
    key = "pools" if settings.models[name].pools else "pool"
    reasons = "; ".join(
        f"{refusal.pool}: {reason}" for refusal in refused for reason in refusal.reasons
    )
    return inputs.environment.origin.problem(
        ("models", name, key),
        f"holds no replica of {name}: {reasons}",
        fix="name a pool with larger or more accelerators, split the model (`parallel`), quantize"
        f" it, or lower max_model_len in {inputs.models[name].origin.source}",
    )


def _model(placed: Placed) -> ModelCapacity:
    demand, option = placed.demand, placed.option
    parameters = count(demand.architecture)
    return ModelCapacity(
        model=demand.model,
        architecture=demand.architecture_name,
        pool=option.supply.pool,
        accelerator=option.supply.accelerator_name,
        instance=option.supply.instance,
        layout=option.layout,
        precision=demand.precision,
        memory=option.memory,
        parameters=parameters.total,
        active_parameters=parameters.active,
        sequences_at_mean_length=sequences_at_mean_length(option.memory, demand.load),
        replicas_needed=option.replicas_needed,
        min_replicas=demand.min_replicas,
        max_replicas=demand.max_replicas,
        utilization=utilization(demand.load, option.serving, demand.min_replicas),
        serving=option.serving,
        meets_goal=option.meets_goal,
        cold_start=option.cold_start,
        cost=option.cost,
        refused=placed.refused,
        warnings=tuple(_model_warnings(placed)),
    )


def _model_warnings(placed: Placed) -> Iterator[str]:
    demand, option = placed.demand, placed.option
    needed = round(option.replicas_needed.value)
    if option.meets_goal is False:
        yield from missed_goals(option, demand)
    elif needed > demand.max_replicas:
        yield f"keeps the goal, but without the room of the {needed} replicas it should have"
    elif needed > demand.min_replicas:
        yield (
            f"the declared load needs {needed} replicas; {demand.min_replicas} run until the"
            " autoscaler has started the rest"
        )
    yield from _refused_prompts(demand)
    yield from _long_prompts(placed)
    start = option.cold_start
    if start.cliff_s is not None and start.total_s.value > start.cliff_s.value:
        yield (
            f"a new replica takes {start.total_s.value:.0f} s; the declared ramp leaves"
            f" {start.cliff_s.value:.0f} s before the TTFT goal is missed: keep more replicas, or"
            " start faster"
        )


def _refused_prompts(demand: Demand) -> Iterator[str]:
    load, most = demand.load, demand.max_model_len
    if load is not None and load.input_tokens.p95 >= most:
        yield (
            f"a prompt of the 95th percentile has {load.input_tokens.p95} tokens; the engine"
            f" refuses what does not fit into max_model_len, {most}"
        )


def _long_prompts(placed: Placed) -> Iterator[str]:
    """The goal is planned for the mean request; a long prompt may miss it all by itself."""
    load, serving = placed.demand.load, placed.option.serving
    goal_ms = placed.demand.goal.ttft_p95_ms
    if load is None or serving is None or goal_ms is None:
        return
    longest = load.input_tokens.p95
    prompt_ms = 1000 * longest / serving.prefill_tokens_per_s.value
    if placed.option.meets_goal and prompt_ms > goal_ms:
        yield (
            f"a prompt of the 95th percentile ({longest} tokens) takes {prompt_ms:.0f} ms by"
            f" itself; the TTFT goal is {goal_ms} ms"
        )


def _total_cost(
    pools: Sequence[PoolCapacity], placed: Iterable[Placed], paid: Iterable[Supply]
) -> Cost:
    """What the nodes cost together; what no model uses of them is paid too."""
    tokens = sum(output_tokens_per_s(each.demand.load) for each in placed if each.demand.load)
    return make_cost(
        sum(pool.usd_per_hour.value for pool in pools),
        " + ".join(pool.pool for pool in pools),
        tokens_per_s=tokens,
        price_date=oldest(supply.price_date for supply in paid),
    )


def _idle(pools: Iterable[PoolCapacity], placed: Iterable[Placed]) -> Iterator[str]:
    used = {each.option.supply.pool for each in placed}
    for pool in pools:
        if pool.pool not in used and pool.usd_per_hour.value:
            cost = pool.usd_per_hour.value
            yield f"pool {pool.pool}: no model uses it; it costs {cost:.2f} USD/h"


def _over_budget(settings: FleetSettings, cost: Cost) -> Iterator[str]:
    budget = settings.budget.usd_per_hour
    if budget is not None and cost.usd_per_hour.value > budget:
        yield f"costs {cost.usd_per_hour.value:.2f} USD/h, the budget is {budget:g}"
