"""Dates of prices in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slipway.planner.wording import counted

if TYPE_CHECKING:
    from slipway.planner.fleet.sweep import Point


def dated(price_date: str, age_days: int | None) -> str:
    """ "2026-07-20, 129 days old"; the date alone where its age is not known."""
    if age_days is None:
        return price_date
    return f"{price_date}, {counted(age_days, 'day')} old"


def oldest_price(points: Iterable[Point]) -> str:
    """The date of the oldest price of some points of a sweep, with its age."""
    oldest = min(points, key=lambda point: point.price_date)
    return dated(oldest.price_date, oldest.price_age_days)
