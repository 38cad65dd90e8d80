"""Measurements of a running environment, read from its Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

import httpx

from slipway.cli.applied import Applied
from slipway.cli.errors import CliError
from slipway.cli.platform.prometheus import Prometheus
from slipway.plan.platform import PlatformPlan
from slipway.planner.reports.comparison import Measured

P95 = "histogram_quantile(0.95, sum by (le) (rate({name}_bucket{{{of}}}[{window}s]))) * 1000"
RATE = "sum(rate({name}{{{of}}}[{window}s]))"
MEAN = "avg(avg_over_time({name}{{{of}}}[{window}s]))"
TTFT = "vllm:time_to_first_token_seconds"
TPOT = "vllm:inter_token_latency_seconds"


def ask(applied: Applied, plan: PlatformPlan, *, window_s: int) -> dict[str, Measured]:
    """Measurements of each model of the plan. CliError when the environment does not answer."""
    try:
        names = [model.name for model in plan.models]
        return measure(applied.prometheus, names, window_s=window_s)
    except httpx.HTTPError as error:
        raise CliError(
            f"Prometheus of {applied.environment} does not answer: {error}",
            fix=f"slipway start -s {applied.environment}, then run the same command again",
        ) from None


def measure(prometheus: str, models: Iterable[str], *, window_s: int) -> dict[str, Measured]:
    """By model name. Raises httpx.HTTPError when Prometheus does not answer."""
    with Prometheus(prometheus) as asked:
        return {model: _model(asked, model, window_s) for model in models}


def _model(asked: Prometheus, model: str, window_s: int) -> Measured:
    of = f'model="{model}"'

    def p95(name: str) -> float | None:
        return asked.number(P95.format(name=name, of=of, window=window_s))

    def rate(name: str) -> float:
        return asked.number(RATE.format(name=name, of=of, window=window_s)) or 0.0

    def mean(name: str) -> float | None:
        return asked.number(MEAN.format(name=name, of=of, window=window_s))

    requests_per_s, output_per_s = (
        rate("vllm:request_success_total"),
        rate("vllm:generation_tokens_total"),
    )
    return Measured(
        window_s=window_s,
        replicas=int(asked.number(f'count(up{{{of}, service=~".+-openai"}} == 1)') or 0),
        requests_per_s=requests_per_s,
        output_tokens_per_s=output_per_s,
        concurrency=mean("vllm:num_requests_running") or 0.0,
        kv_cache_usage=mean("vllm:kv_cache_usage_perc"),
        input_tokens=_each(rate("vllm:prompt_tokens_total"), requests_per_s),
        output_tokens=_each(output_per_s, requests_per_s),
        ttft_ms=_mean_ms(rate(f"{TTFT}_sum"), rate(f"{TTFT}_count")),
        tpot_ms=_mean_ms(rate(f"{TPOT}_sum"), rate(f"{TPOT}_count")),
        ttft_p95_ms=p95(TTFT),
        tpot_p95_ms=p95(TPOT),
    )


def _mean_ms(seconds_per_s: float, observations_per_s: float) -> float | None:
    return 1000 * seconds_per_s / observations_per_s if observations_per_s else None


def _each(tokens_per_s: float, requests_per_s: float) -> float | None:
    return tokens_per_s / requests_per_s if requests_per_s else None
