"""What `tcp_check.py measure` prints: JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

from fabric.readings.errors import CutOffError, UnknownFormError

_TOOL = "tcp_check"
_UNKNOWN = ("retransmits", "received_gbit_per_s")  # may be null


@dataclass(frozen=True)
class TcpFigures:
    """Payload only: at an MTU of 1500 headers take about 5 % of the line. `retransmits` is None
    where the kernel does not say."""

    streams: int
    seconds: float
    gbit_per_s: float
    round_trip_median_us: float
    round_trip_p99_us: float
    retransmits: int | None
    received_gbit_per_s: float | None = None  # from the other side; None before it was measured


def parse_tcp(text: str) -> TcpFigures:
    """Raises ReadingError."""
    if not text.strip():
        raise CutOffError(_TOOL, "its result")
    try:
        document = json.loads(text)
        figures = TcpFigures(**document)
    except (ValueError, TypeError) as error:
        raise UnknownFormError(_TOOL, str(error)) from None
    for field in fields(figures):
        value = getattr(figures, field.name)
        known = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        if not known and not (value is None and field.name in _UNKNOWN):
            raise UnknownFormError(_TOOL, f"{field.name} is {value!r}")
    return figures
