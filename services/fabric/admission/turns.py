"""Which two hosts of a pool measure with each other next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RETRY_S = 600.0  # until a host that failed measures again, with another one if there is one


@dataclass(frozen=True)
class Standing:
    """`idle` is a host that holds no member. `measured_s` is when it last measured, None before
    the first time, and `peer` with whom it failed."""

    idle: bool
    measured_s: float | None
    failed: bool = False
    peer: str = ""


def next_pair(hosts: Mapping[str, Standing], now_s: float) -> tuple[str, str] | None:
    """Hosts that were never measured come first, then those that failed a while ago; each takes the
    one that has waited longest, and another than the last time where there is one."""
    idle = {name: each for name, each in hosts.items() if each.idle}
    due = sorted(
        (name for name, each in idle.items() if _is_due(each, now_s)),
        key=lambda name: (idle[name].measured_s or 0, name),
    )
    for name in due:
        others = sorted(
            (other for other in idle if other != name),
            key=lambda other: (
                other == idle[name].peer,
                idle[other].failed,
                idle[other].measured_s or 0,
                other,
            ),
        )
        if others:
            return name, others[0]
    return None


def _is_due(host: Standing, now_s: float) -> bool:
    if host.measured_s is None:
        return True
    return host.failed and now_s - host.measured_s >= RETRY_S
