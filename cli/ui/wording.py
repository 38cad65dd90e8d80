"""Figures and times as a person reads them."""

from __future__ import annotations

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
NOTHING = "-"


def figure(value: float | None, unit: str = "") -> str:
    """Three digits, which is what a rate over a minute is good for."""
    if value is None:
        return NOTHING
    digits = 0 if value >= 99.95 or value == 0 else 1 if value >= 9.995 else 2
    return f"{value:,.{digits}f}{' ' * bool(unit)}{unit}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value / 1000:,.1f} s" if value >= 9_999.5 else f"{value:,.0f} ms"


def ago(past_s: float, now_s: float) -> str:
    """Coarse, so that a page does not change because time passes."""
    seconds = max(0, int(now_s - past_s))
    if seconds < MINUTE_S:
        return "less than a minute ago"
    if seconds < HOUR_S:
        return f"{seconds // MINUTE_S} min ago"
    if seconds < 2 * DAY_S:
        return f"{seconds // HOUR_S} h ago"
    return f"{seconds // DAY_S} days ago"


def bounds(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
