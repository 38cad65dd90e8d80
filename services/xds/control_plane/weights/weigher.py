"""Decides the weights of replicas. Pure: time is given.

A key has one replica (Maglev), which says nothing of how much work a key is: one replica may have
those with the long prompts, its cache too small for them, while another has room. So the weights of
replicas that are busier than the least busy one of their job are lowered, which moves some of their
keys. Moving a key costs a prefill of all that was cached for it, so weights move rarely, by single
steps, and not at all for small differences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..routing import EQUAL_WEIGHT, NEW_REPLICA_WEIGHT
from .document import LOWEST, STEP
from .signals import Signal

# As parts of a score that gives what is cached 0.45, as routers that score replicas have it
# (docs/adr/0024): here the keys stand for what is cached.
QUEUE_PART, KV_PART = 0.25, 0.20
# A replica is at the lowest weight if it is busier by half of what is possible.
GAIN = 2.0
HALF_LIFE_S = 30.0  # of what was reported before: one look at a queue says little
MOVED_AT = 2 * STEP  # the least distance to what a replica should have
KEPT_S = 30.0  # without signals; then weights fade to equal ones


@dataclass(slots=True)
class _Seen:
    load: float
    at_s: float


class Weigher:
    """Keeps the smoothed loads of replicas between calls."""

    def __init__(self) -> None:
        self._loads: dict[str, _Seen] = {}
        self._since_s: dict[str, float] = {}  # the first call with a replica

    def weights(
        self,
        groups: Iterable[Collection[str]],
        current: Mapping[str, int],
        signals: Mapping[str, Signal],
        now_s: float,
    ) -> dict[str, int]:
        """The next weights of all replicas; those of a group share a job. `current` are the weights
        that are served."""
        known = [tuple(group) for group in groups]
        replicas = {replica for group in known for replica in group}
        self._loads = {name: seen for name, seen in self._loads.items() if name in replicas}
        self._since_s = {name: self._since_s.get(name, now_s) for name in replicas}
        for replica in replicas & signals.keys():
            self._take(replica, signals[replica], now_s)
        weights: dict[str, int] = {}
        for group in known:
            weights |= self._of_group(group, current, now_s)
        return weights

    def _take(self, replica: str, signal: Signal, now_s: float) -> None:
        load = QUEUE_PART * signal.queue + KV_PART * signal.kv_use
        before = self._loads.get(replica)
        if before is not None:
            kept = 0.5 ** ((now_s - before.at_s) / HALF_LIFE_S)
            load = kept * before.load + (1 - kept) * load
        self._loads[replica] = _Seen(load, now_s)

    def _of_group(
        self, group: Collection[str], current: Mapping[str, int], now_s: float
    ) -> dict[str, int]:
        served = any(replica in current for replica in group)
        first = NEW_REPLICA_WEIGHT if served else EQUAL_WEIGHT
        loads = {
            replica: seen.load
            for replica in group
            if (seen := self._loads.get(replica)) and now_s - seen.at_s <= KEPT_S
        }
        least = min(loads.values(), default=0.0)
        weights = {}
        for replica in group:
            weight = current.get(replica, first)
            if replica in loads:
                weight = _toward(_target(loads[replica] - least), weight)
            elif now_s - self._last_known_s(replica) > KEPT_S:
                weight = _toward(EQUAL_WEIGHT, weight)
            weights[replica] = weight
        return weights

    def _last_known_s(self, replica: str) -> float:
        seen = self._loads.get(replica)
        return seen.at_s if seen else self._since_s[replica]


def _target(busier: float) -> float:
    share = min(1.0, GAIN * busier / (QUEUE_PART + KV_PART))
    return EQUAL_WEIGHT - share * (EQUAL_WEIGHT - LOWEST)


def _toward(target: float, weight: int) -> int:
    """One step, and none for a small distance, unless it ends at a bound."""
    if abs(target - weight) < (STEP if target in (LOWEST, EQUAL_WEIGHT) else MOVED_AT):
        return weight
    return weight + STEP if target > weight else weight - STEP
