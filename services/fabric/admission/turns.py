"""Which two hosts of a pool measure with each other next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Until a host that failed, or did not answer, measures again, with another one if there is one.
RETRY_S = 600.0


@dataclass(frozen=True)
class Standing:
    """`idle` is a host that holds no member. `measured_s` is when it last measured, None before
    the first time, and `peer` with whom it failed. `asked_s` is when it was last asked to, and
    `silent_s` when waiting for its answer was given up."""

    idle: bool
    measured_s: float | None
    failed: bool = False
    peer: str = ""
    asked_s: float | None = None
    silent_s: float | None = None

    @property
    def latest_s(self) -> float:
        return max(self.measured_s or 0, self.asked_s or 0)

    def may_measure(self, now_s: float) -> bool:
        return self.idle and (self.silent_s is None or now_s - self.silent_s >= RETRY_S)


def next_pair(hosts: Mapping[str, Standing], now_s: float) -> tuple[str, str] | None:
    """Hosts that were never measured come first, then those that failed a while ago; each takes the
    one that has waited longest, and another than the last time where there is one. One that did not
    answer is left out for a while."""
    idle = {name: each for name, each in hosts.items() if each.may_measure(now_s)}
    due = sorted(
        (name for name, each in idle.items() if _is_due(each, now_s)),
        key=lambda name: (idle[name].latest_s, name),
    )
    for name in due:
        others = sorted(
            (other for other in idle if other != name),
            key=lambda other: (
                other == idle[name].peer,
                idle[other].failed,
                idle[other].latest_s,
                other,
            ),
        )
        if others:
            return name, others[0]
    return None


def unmeasured(hosts: Mapping[str, Standing]) -> tuple[str, ...]:
    """Those that have yet to measure, while there is another one to measure with."""
    idle = [name for name, each in hosts.items() if each.idle]
    return tuple(name for name in idle if len(idle) > 1 and hosts[name].measured_s is None)


def _is_due(host: Standing, now_s: float) -> bool:
    if host.measured_s is None:
        return True
    return host.failed and now_s - host.measured_s >= RETRY_S
