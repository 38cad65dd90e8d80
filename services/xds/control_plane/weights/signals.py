"""What engines report, as Prometheus answers it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

WAITING, RUNNING = "vllm:num_requests_waiting", "vllm:num_requests_running"
KV_USE = "vllm:kv_cache_usage_perc"
# An instant query. `replica` is the label that Prometheus copies from a service's meta.
QUERY = f'{{__name__=~"{WAITING}|{RUNNING}|{KV_USE}",replica!=""}}'


@dataclass(frozen=True, slots=True)
class Signal:
    """Both from 0 to 1: requests that wait as a share of those that run, and KV blocks in use."""

    queue: float
    kv_use: float


def signals(series: Iterable[Mapping[str, Any]]) -> dict[str, Signal]:
    """By replica. One that lacks any of the series has no signal: that is not the same as no
    load. A replica of several engines has their requests and the fullest of their caches."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in series:
        labels, (_, text) = each["metric"], each["value"]
        value = float(text)
        if isfinite(value):
            of_replica = found.setdefault(labels["replica"], {})
            of_replica.setdefault(labels["__name__"], []).append(value)
    complete = {WAITING, RUNNING, KV_USE}
    return {
        replica: Signal(_queue(sum(by[WAITING]), sum(by[RUNNING])), _share(max(by[KV_USE])))
        for replica, by in found.items()
        if by.keys() >= complete
    }


def _queue(waiting: float, running: float) -> float:
    return _share(waiting / max(1.0, running))


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
