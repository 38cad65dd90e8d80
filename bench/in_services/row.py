"""A row of bench/service_times.py, which reads them from standard output."""

from __future__ import annotations

import json


def row(what: str, measured_s: float, *, bar_s: float, lost: str = "") -> None:
    """`lost` says what was lost beyond what may be; the row then misses its bar."""
    measured = f"{measured_s:.2f} s" + (f", {lost}" if lost else "")
    met = measured_s <= bar_s and not lost
    print(json.dumps({"what": what, "measured": measured, "bar": f"{bar_s:.3g} s", "met": met}))
