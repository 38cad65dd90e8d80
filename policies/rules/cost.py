"""What an environment may cost, and whether the planner knows its cost."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from rules.facts import Unevaluable, mapping, number, number_or_none, require, text, text_or_none
from rules.rule import (
    ADVICE,
    MODEL_SERVICE,
    NODE_POOL,
    PLATFORM,
    PRODUCTION,
    PRODUCTION_ADVICE,
    SHARED,
    Resource,
    rule,
)

LOW_UTILIZATION = 0.2
UNPRICED_KINDS = frozenset({"local", "metal"})


@rule(
    PLATFORM,
    severity=SHARED,
    why="The budget is the agreed hourly cost of this environment.",
    fix="Choose cheaper pools (`slipway plan --sweep MODEL`), lower the minimum number of replicas,"
    " or have `slipway:budget` raised.",
)
def over_budget(platform: Resource) -> Iterator[str]:
    """An environment at its minimum costs no more than its budget"""
    require(platform.props, "budget.usd_per_hour")
    budget = number_or_none(platform.props, "budget.usd_per_hour")
    if budget is None:
        return
    cost = number(platform.props, "cost.usd_per_hour")
    if cost > budget:
        yield f"costs ${cost:,.2f}/h, the budget is ${budget:,.2f}/h"


@rule(
    PLATFORM,
    severity=SHARED,
    why="The autoscaler spends up to the maximum without asking anybody.",
    fix="Lower `replicas.max` or `nodes.max`, or set `budget.usd_per_hour_at_most` to what a peak"
    " may cost.",
)
def scaling_above_budget(platform: Resource) -> Iterator[str]:
    """An environment at its maximum costs no more than its budget for peaks"""
    require(platform.props, "budget.usd_per_hour_at_most")
    budget = number_or_none(platform.props, "budget.usd_per_hour_at_most")
    if budget is None:
        return
    cost = number(platform.props, "cost.usd_per_hour_at_most")
    if cost > budget:
        yield f"may scale to ${cost:,.2f}/h, the budget for peaks is ${budget:,.2f}/h"


@rule(
    PLATFORM,
    severity=SHARED,
    why="A single change that adds this much deserves a decision of its own, even inside the"
    " budget.",
    fix="Split the change, or have `budget.usd_per_hour_per_change` raised for it.",
)
def change_over_budget(platform: Resource) -> Iterator[str]:
    """A change adds no more per hour than the budget allows for one change"""
    require(platform.props, "budget.usd_per_hour_per_change")
    budget = number_or_none(platform.props, "budget.usd_per_hour_per_change")
    if budget is None:
        return
    before = platform.settings.usd_per_hour_before
    if before is None:
        raise Unevaluable("the cost before the change is missing (`slipway preview` passes it)")
    if before == 0:  # the first purchase: only the environment's budget can judge it
        return
    added = number(platform.props, "cost.usd_per_hour") - before
    if added > budget:
        yield f"adds ${added:,.2f}/h, a change may add ${budget:,.2f}/h"


@rule(
    PLATFORM,
    severity=PRODUCTION_ADVICE,
    why="Without a budget, no change is ever too expensive.",
    fix="Set `slipway:budget` in the environment's file.",
)
def no_budget(platform: Resource) -> Iterator[str]:
    """A production environment that costs money has a budget"""
    require(platform.props, "budget.usd_per_hour")
    cost = number(platform.props, "cost.usd_per_hour")
    if cost and number_or_none(platform.props, "budget.usd_per_hour") is None:
        yield f"costs ${cost:,.2f}/h and has no budget"


@rule(
    PLATFORM,
    severity=ADVICE,
    why="Prices change monthly: a total from old prices is a guess.",
    fix="Check the prices in catalog/*.yaml against their sources and renew their dates.",
)
def stale_price(platform: Resource) -> Iterator[str]:
    """The prices behind the cost are recent"""
    require(platform.props, "cost.price_date")
    date = text_or_none(platform.props, "cost.price_date")
    if not date:  # nothing is priced
        return
    try:
        age = platform.settings.today - datetime.date.fromisoformat(date)
    except ValueError:
        raise Unevaluable("cost.price_date is not an ISO date") from None
    if age.days > platform.settings.max_price_age_days:
        yield f"the oldest price is from {date}, {age.days} days ago"


@rule(
    NODE_POOL,
    severity=SHARED,
    why="A pool without a price makes the environment look cheaper than it is.",
    fix="Add `usd_per_hour` with its source and date to the instance in catalog/instances.yaml.",
)
def unpriced_pool(pool: Resource) -> Iterator[str]:
    """Every rented pool has a price"""
    if text(pool.props, "kind") in UNPRICED_KINDS:
        return
    require(pool.props, "capacity.usd_per_hour")
    if number_or_none(pool.props, "capacity.usd_per_hour") is None:
        yield "is rented and has no price"


@rule(
    MODEL_SERVICE,
    severity=ADVICE,
    why="A device that is idle most of the time costs as much as a busy one.",
    fix="Use a smaller accelerator or fewer replicas, or let several models share a pool.",
)
def idle_accelerators(model: Resource) -> Iterator[str]:
    """The devices of a model are busy enough"""
    if number(model.props, "replica.accelerators") == 0:
        return
    require(model.props, "load")
    if not mapping(model.props, "load"):
        return
    used = number(model.props, "capacity.utilization")
    if used < LOW_UTILIZATION:
        yield f"uses {used:.0%} of its minimum replicas under the declared load"


@rule(
    MODEL_SERVICE,
    severity=PRODUCTION,
    why="Spot machines are taken back at two minutes' notice, often many at once, and a model takes"
    " longer to load: the minimum must be on capacity that stays.",
    fix="Put the minimum on on-demand, reserved or owned machines and let spot carry the peaks.",
)
def spot_floor(model: Resource) -> Iterator[str]:
    """The minimum of a production model is not on spot machines"""
    if number(model.props, "replica.accelerators") == 0:
        return
    if text(model.props, "capacity.market") == "spot":
        floor = number(model.props, "scaling.min_replicas")
        yield f"all {floor:.0f} replicas of its minimum are on spot machines"
