"""Which replicas stay in use although Consul takes them for unhealthy.

When several replicas fail together, the cause is more likely Consul, its agents or the network
between them than the replicas, and a cluster that is emptied because of a wrong answer refuses
every request. Envoy asks each replica's liveness page by itself, so nothing is sent to those that
have really gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from .routing import Endpoint, Place

FELL_TOGETHER_S = 30.0  # Consul's checks run every 10 s, and fail one after the other
# Dead replicas raise the cluster's request limit as long as they are held.
HELD_AT_MOST_S = 300.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A replica that has been healthy; `fell_s` is when it ceased to be, None while it is."""

    instance: str
    fell_s: float | None = None
    held: bool = False


class Holding:
    """Judges the endpoints of one cluster, answer by answer of Consul. Pure: times come with them.

    Replicas that have been healthy and are not any more are held if no healthy ones are left, or if
    at least two have fallen within FELL_TOGETHER_S and they are at least half. If one of several
    falls, Consul is believed. While others are healthy, a replica is held for HELD_AT_MOST_S.

    Only replicas with a liveness page are held: nobody else would find those that are dead.
    """

    def __init__(self, known: Iterable[Endpoint] = ()) -> None:
        """`known` are endpoints of an earlier view, whose instances are not known."""
        self._seen = {each.place: _Seen("") for each in known if each.healthy}

    def judged(self, endpoints: Iterable[Endpoint], now_s: float) -> tuple[Endpoint, ...]:
        members = tuple(endpoints)
        seen = {each.place: self._now(each, now_s) for each in members}
        fell_ago_s = {
            each.place: now_s - was.fell_s
            for each in members
            if each.liveness_port and (was := seen[each.place]) and was.fell_s is not None
        }
        were_held = {place for place, was in seen.items() if was and was.held}
        held = _held(fell_ago_s, were_held, healthy=sum(each.healthy for each in members))
        self._seen = {place: replace(was, held=place in held) for place, was in seen.items() if was}
        return tuple(replace(each, held=each.place in held) for each in members)

    def _now(self, endpoint: Endpoint, now_s: float) -> _Seen | None:
        """None for one that has never been healthy, or was taken out on purpose."""
        if endpoint.healthy:
            return _Seen(endpoint.instance)
        was = self._seen.get(endpoint.place)
        # Another instance may have got the address and port of one that is gone.
        if was is None or not endpoint.instance or was.instance not in ("", endpoint.instance):
            return None
        fell_s = now_s if was.fell_s is None else was.fell_s
        return replace(was, instance=endpoint.instance, fell_s=fell_s)


def _held(
    fell_ago_s: Mapping[Place, float], were_held: Collection[Place], *, healthy: int
) -> set[Place]:
    """Of the replicas that have fallen."""
    if not healthy:
        return {*fell_ago_s}
    together = {place for place, ago_s in fell_ago_s.items() if ago_s <= FELL_TOGETHER_S}
    collapsed = len(together) > 1 and len(together) >= healthy
    still = {
        place
        for place, ago_s in fell_ago_s.items()
        if place in were_held and ago_s <= HELD_AT_MOST_S
    }
    return still | together if collapsed else still
