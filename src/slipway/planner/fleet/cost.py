"""What a plan costs, from the price of its nodes."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace

from slipway.config.load import Load
from slipway.plan.figures import Cost, Figure
from slipway.planner.supply.supply import Supply
from slipway.planner.wording import counted

HOURS_PER_MONTH = 730  # 8,760 hours of a year / 12
SECONDS_PER_HOUR = 3600
OLD_PRICE_DAYS = 90


def usd_per_hour(supply: Supply, *, devices: int, replicas: int) -> float:
    """The price of the share of a pool's nodes that the replicas take."""
    return supply.device_usd_per_hour * devices * replicas


def replica_cost(supply: Supply, *, devices: int, replicas: int, load: Load | None) -> Cost:
    """The cost of one model: its share of the nodes, by devices."""
    node = supply.node_usd_per_hour
    source = (
        f"{counted(replicas, 'replica')} x {counted(devices, 'device')} x {node.value:g} USD/h /"
        f" {supply.accelerators_per_node} devices of a node ({node.source})"
    )
    hourly = usd_per_hour(supply, devices=devices, replicas=replicas)
    tokens_per_s = 0.0 if load is None else output_tokens_per_s(load)
    return make_cost(hourly, source, tokens_per_s=tokens_per_s, price_date=supply.price_date)


def nodes_cost(supply: Supply, nodes: int, load: Load) -> Cost:
    """The cost of whole nodes, whatever the replicas take of them."""
    node = supply.node_usd_per_hour
    return make_cost(
        nodes * node.value,
        f"{counted(nodes, 'node')} x {node.value:g} USD/h ({node.source})",
        tokens_per_s=output_tokens_per_s(load),
        price_date=supply.price_date,
    )


def make_cost(hourly: float, source: str, *, tokens_per_s: float, price_date: str) -> Cost:
    """`tokens_per_s` is the output tokens/s served at this cost; 0 without a declared load."""
    return Cost(
        usd_per_hour=_usd(hourly, "USD/h", source),
        usd_per_month=_usd(hourly * HOURS_PER_MONTH, "USD/month", f"{HOURS_PER_MONTH} h: {source}"),
        usd_per_million_output_tokens=None
        if not tokens_per_s
        else _usd(
            hourly / (tokens_per_s * SECONDS_PER_HOUR) * 1e6,
            "USD/million tokens",
            f"{hourly:.2f} USD/h / {tokens_per_s:.1f} output tokens/s of the declared load",
        ),
        price_date=price_date,
    )


def output_tokens_per_s(load: Load) -> float:
    return load.requests_per_s * load.output_tokens.mean


def oldest(dates: Iterable[str]) -> str:
    """The oldest of the ISO dates, "" if there are none."""
    return min((date for date in dates if date), default="")


def aged(cost: Cost, today: datetime.date | None) -> Cost:
    """With the age of its oldest price at `today`."""
    if today is None or not cost.price_date:
        return cost
    return replace(cost, price_age_days=age_days(cost.price_date, today))


def age_days(date: str, today: datetime.date) -> int:
    """The days from an ISO date to `today`."""
    return (today - datetime.date.fromisoformat(date)).days


def old_price_warnings(supplies: Iterable[Supply], today: datetime.date) -> tuple[str, ...]:
    """One warning per instance with an old price."""
    return tuple(
        warning
        for supply in {each.instance: each for each in supplies if each.price_date}.values()
        for warning in old_price_warning(supply.instance, supply.price_date, "instances", today)
    )


def old_price_warning(
    what: str, price_date: str, file: str, today: datetime.date
) -> tuple[str, ...]:
    """One if the price of `what`, from catalog/<file>.yaml, is old; "" is the date of none."""
    age = age_days(price_date, today) if price_date else 0
    if age <= OLD_PRICE_DAYS:
        return ()
    return (
        f"the price of {what} is {age} days old ({price_date}): check it and update its date in"
        f" catalog/{file}.yaml",
    )


def _usd(value: float, unit: str, source: str) -> Figure:
    return Figure(value=value, unit=unit, basis="declared", source=source)
