"""Warnings about a plan, given before it is built."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping

from slipway.config.settings import BudgetSettings
from slipway.plan.figures import Cost
from slipway.plan.platform import Pool
from slipway.planner.supply.supply import Supply
from slipway.planner.verdict import verdict, what_decides
from slipway.planner.wording import counted

from .cost import old_price_warnings
from .demand import Demand
from .layouts import describe_layout
from .occupancy import crowded_warnings
from .option import missed_goals
from .placed import Placed

NO_ESTIMATE = "no estimate for processors: --calibrate measures latency and throughput"


def plan_warnings(
    supplies: Mapping[str, Supply],
    pools: Iterable[Pool],
    placed: Iterable[Placed],
    cost: Cost,
    budget: BudgetSettings,
    *,
    today: datetime.date | None,
) -> Iterator[str]:
    """Warnings about the whole environment, including prices older than 90 days at `today`."""
    pools, placed = list(pools), list(placed)
    paid = paid_supplies(supplies, pools)
    yield from old_price_warnings(paid, today) if today else ()
    for supply in paid:
        yield from supply.warnings
    for supply in paid:
        if supply.accelerator is not None:
            yield from crowded_warnings(supply, placed)
    yield from _idle([pool for pool in pools if not supplies[pool.name].holds_gateway], placed)
    yield from _over_budget(budget, cost)
    if any(each.option.on_processors and each.option.serving is None for each in placed):
        yield NO_ESTIMATE


def paid_supplies(supplies: Mapping[str, Supply], pools: Iterable[Pool]) -> list[Supply]:
    """The pools whose nodes cost something or are always on."""
    return [supplies[pool.name] for pool in pools if pool.usd_per_hour.value or pool.nodes_min]


def model_warnings(placed: Placed) -> Iterator[str]:
    demand, option = placed.demand, placed.option
    needed = round(option.replicas_needed.value)
    if verdict(option.memory) == "may_fit":
        yield what_decides(option.memory, demand.max_model_len)
    if placed.without_room:
        yield (
            f"runs as {describe_layout(option.layout)}: its pool has no room for a better layout"
            f" ({'; '.join(placed.without_room)})"
        )
    if option.meets_goal is False:
        yield from missed_goals(option)
    elif needed > demand.max_replicas:
        yield f"meets the goal, but with less headroom than {needed} replicas would give"
    elif needed > demand.min_replicas:
        yield (
            f"the declared load needs {counted(needed, 'replica')}; {demand.min_replicas} run until"
            " the autoscaler has started the rest"
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
            f" refuses prompts that do not fit in max_model_len, {most}"
        )


def _long_prompts(placed: Placed) -> Iterator[str]:
    """The goal is planned for the mean request; a long prompt alone may miss it."""
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


def _idle(pools: Iterable[Pool], placed: Iterable[Placed]) -> Iterator[str]:
    used = {each.option.supply.pool for each in placed}
    for pool in pools:
        if pool.name not in used and pool.usd_per_hour.value:
            cost = pool.usd_per_hour.value
            yield f"pool {pool.name}: no model uses it; it costs {cost:.2f} USD/h"


def _over_budget(settings: BudgetSettings, cost: Cost) -> Iterator[str]:
    budget = settings.usd_per_hour
    if budget is not None and cost.usd_per_hour.value > budget:
        yield f"costs {cost.usd_per_hour.value:.2f} USD/h; the budget is {budget:g}"
