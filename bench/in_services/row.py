"""A row of bench/service_times.py or bench/gateway/scale.py, which read standard output."""

from __future__ import annotations

import json


def row(what: str, measured_s: float, *, bar_s: float, lost: str = "") -> None:
    """`lost` says what was lost beyond what may be; the row then misses its bar."""
    measured = f"{measured_s:.2f} s" + (f", {lost}" if lost else "")
    figure(what, measured, bar=f"{bar_s:.3g} s", met=measured_s <= bar_s and not lost)


def figure(what: str, measured: str, *, bar: str, met: bool) -> None:
    """A row of another unit than seconds."""
    print(json.dumps({"what": what, "measured": measured, "bar": bar, "met": met}), flush=True)
