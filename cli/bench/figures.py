"""TTFT, TPOT and rates of a set of requests."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.bench.outcome import Answered, Failed, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Interpolated linearly between requests (method "inclusive" of statistics.quantiles)."""

    p50: float
    p95: float
    p99: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """TTFT is the time from sending a request to its first text; TPOT that from the first to the
    last text, per token after the first. Both are of answered requests, and None without one that
    has them. `seconds` is the time from the first request to the end of the last answer; rates are
    over it. `said` has an example of each kind of error."""

    requests: int
    answered: int
    errors: Mapping[str, int]
    said: Mapping[str, str]
    seconds: float
    ttft_ms: Percentiles | None
    tpot_ms: Percentiles | None
    requests_per_s: float
    output_tokens_per_s: float
    input_tokens: float | None  # of the mean request
    output_tokens: float | None


def figures_of(outcomes: Sequence[Outcome]) -> Figures:
    answered = [each for each in outcomes if isinstance(each, Answered)]
    failed = [each for each in outcomes if isinstance(each, Failed)]
    seconds = _seconds(outcomes)
    output_tokens = sum(each.output_tokens for each in answered)
    counted = [each.input_tokens for each in answered if each.input_tokens is not None]
    return Figures(
        requests=len(outcomes),
        answered=len(answered),
        errors=dict(Counter(each.kind for each in failed)),
        said={each.kind: each.said for each in reversed(failed)},
        seconds=seconds,
        ttft_ms=percentiles([1000 * (each.first_s - each.sent_s) for each in answered]),
        tpot_ms=percentiles([1000 * _tpot_s(each) for each in answered if each.output_tokens > 1]),
        requests_per_s=len(answered) / seconds if seconds else 0.0,
        output_tokens_per_s=output_tokens / seconds if seconds else 0.0,
        input_tokens=statistics.fmean(counted) if counted else None,
        output_tokens=output_tokens / len(answered) if answered else None,
    )


def percentiles(values: Sequence[float]) -> Percentiles | None:
    if not values:
        return None
    if len(values) == 1:
        return Percentiles(p50=values[0], p95=values[0], p99=values[0], mean=values[0])
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return Percentiles(p50=cuts[49], p95=cuts[94], p99=cuts[98], mean=statistics.fmean(values))


def _tpot_s(answer: Answered) -> float:
    return (answer.last_s - answer.first_s) / (answer.output_tokens - 1)


def _seconds(outcomes: Sequence[Outcome]) -> float:
    if not outcomes:
        return 0.0
    return max(each.ended_s for each in outcomes) - min(each.sent_s for each in outcomes)
