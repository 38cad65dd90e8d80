"""What the gateway is held to, judged by the median of the pairs."""

from __future__ import annotations

import operator
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bench.gateway.contender import DIRECT
from bench.gateway.contenders import (
    BEFORE,
    CACHE_AWARE,
    OURS_AFFINITY,
    OURS_LEAST_REQUEST,
    OURS_WEIGHTS,
    ROUND_ROBIN,
)
from bench.gateway.measurement import Run

Pair = Mapping[str, Run]  # the runs of one trace at one concurrency in one pair, by contender

# The planned `bound_percent` of the benchmark's model: the most of a replica, in times the mean.
BOUND = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """`value` of each pair is compared with `limit`, in `unit`."""

    what: str
    trace: str
    concurrency: int
    value: Callable[[Pair], float]
    limit: float
    holds: Callable[[float, float], bool] = operator.le
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`measured` is the median of the pairs; None if a contender of the bar was not measured."""

    what: str
    trace: str
    concurrency: int
    measured: float | None
    limit: str
    met: bool | None


def judged(runs: Sequence[Run], bars: Sequence[Bar]) -> list[Verdict]:
    pairs: dict[tuple[str, int], dict[int, dict[str, Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        pairs[run.trace, run.concurrency][run.pair][run.contender] = run
    return [_verdict(bar, pairs[bar.trace, bar.concurrency].values()) for bar in bars]


def ours(runs: Sequence[Run]) -> str:
    """The contender that is held to the bars: the default of this checkout."""
    with_affinity = any(run.contender == OURS_AFFINITY for run in runs)
    return OURS_AFFINITY if with_affinity else OURS_LEAST_REQUEST


def bars(subject: str, *, replicas: int, concurrencies: Sequence[int]) -> list[Bar]:
    """Of `subject`, which is one of this checkout's gateways."""
    return [
        *_hits(subject, concurrencies),
        *_shares(subject, replicas, concurrencies),
        *_tails(subject, concurrencies),
        *_weights(concurrencies),
        *_processor_times(subject, concurrencies),
        _added(subject),
    ]


def _hits(subject: str, concurrencies: Sequence[int]) -> Iterator[Bar]:
    def points(pair: Pair) -> float:
        return 100 * (pair[subject].hit_ratio - pair[CACHE_AWARE].hit_ratio)

    for trace in ("groups", "turns"):
        for concurrency in concurrencies:
            yield Bar(
                what=f"hit ratio against {CACHE_AWARE}",
                trace=trace,
                concurrency=concurrency,
                value=points,
                limit=-2.0,
                holds=operator.ge,
                unit="points",
            )


def _shares(subject: str, replicas: int, concurrencies: Sequence[int]) -> Iterator[Bar]:
    for trace in ("hot", "hot-warm"):
        for concurrency in concurrencies:
            if concurrency > 1:  # a load of one request has no bound
                yield Bar(
                    what="requests of the busiest replica",
                    trace=trace,
                    concurrency=concurrency,
                    value=lambda pair: 100 * pair[subject].busiest_share,
                    limit=100 * BOUND / replicas + 5,
                    unit="%",
                )


def _tails(subject: str, concurrencies: Sequence[int]) -> Iterator[Bar]:
    if subject == OURS_LEAST_REQUEST:
        return
    for concurrency in concurrencies:
        yield Bar(
            what=f"TTFT p95 against {OURS_LEAST_REQUEST}",
            trace="uniform",
            concurrency=concurrency,
            value=lambda pair: pair[subject].ttft_p95_ms / pair[OURS_LEAST_REQUEST].ttft_p95_ms,
            limit=1.1,
        )


def _weights(concurrencies: Sequence[int]) -> Iterator[Bar]:
    """Where caches are too small, with weights of replicas against without."""

    def points(pair: Pair) -> float:
        return 100 * (pair[OURS_WEIGHTS].hit_ratio - pair[OURS_AFFINITY].hit_ratio)

    def slower(pair: Pair) -> float:
        return pair[OURS_WEIGHTS].ttft_p95_ms / pair[OURS_AFFINITY].ttft_p95_ms

    for trace in ("thrash", "uneven"):
        for concurrency in concurrencies:
            bar = partial(Bar, trace=trace, concurrency=concurrency)
            yield bar(
                what="hit ratio with weights against without",
                value=points,
                limit=0.0,
                holds=operator.ge,
                unit="points",
            )
            yield bar(what="TTFT p95 with weights against without", value=slower, limit=1.0)


def _processor_times(subject: str, concurrencies: Sequence[int]) -> Iterator[Bar]:
    short = {CACHE_AWARE: 0.85, BEFORE: 1.0, ROUND_ROBIN: 1.0}
    limits = {"groups": short, "uniform": short, "long": {CACHE_AWARE: 1.0}}
    for trace, others in limits.items():
        for other, limit in others.items():

            def ratio(pair: Pair, other: str = other) -> float:
                return pair[subject].gateway_cpu_ms / pair[other].gateway_cpu_ms

            for concurrency in concurrencies:
                yield Bar(
                    what=f"processor time per request against {other}",
                    trace=trace,
                    concurrency=concurrency,
                    value=ratio,
                    limit=limit,
                )


def _added(subject: str) -> Bar:
    """Where nothing is shared no placement is better than another, so a difference is added."""

    def ratio(pair: Pair) -> float:
        direct_ms = pair[DIRECT].ttft_p50_ms
        added_ms = pair[CACHE_AWARE].ttft_p50_ms - direct_ms
        return (pair[subject].ttft_p50_ms - direct_ms) / added_ms

    return Bar(
        what=f"added TTFT p50 against {CACHE_AWARE}",
        trace="uniform",
        concurrency=1,
        value=ratio,
        limit=0.5,
    )


def _verdict(bar: Bar, pairs: Iterable[Pair]) -> Verdict:
    values = []
    for pair in pairs:
        try:
            values.append(bar.value(pair))
        except (KeyError, ZeroDivisionError):  # a contender that was not measured
            continue
    measured = statistics.median(values) if values else None
    sign = "at most" if bar.holds is operator.le else "at least"
    return Verdict(
        what=bar.what,
        trace=bar.trace,
        concurrency=bar.concurrency,
        measured=measured,
        limit=f"{sign} {bar.limit:g} {bar.unit}".rstrip(),
        met=None if measured is None else bar.holds(measured, bar.limit),
    )
