"""Measurements of a running environment, read from its Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from cli.applied import Applied
from cli.clusters.prometheus import Prometheus
from cli.errors import CliError
from slipway.inputs import PlanInputs
from slipway.planner.engines.adapter import EngineMetrics
from slipway.planner.engines.registry import engine_of
from slipway.planner.reports.comparison import Measured

P95 = "histogram_quantile(0.95, sum by (le) (rate({name}_bucket{{{of}}}[{window}s]))) * 1000"
RATE = "sum(rate({name}{{{of}}}[{window}s]))"
MEAN = "avg(avg_over_time({name}{{{of}}}[{window}s]))"
# Each replica's engine is scraped once (components/serving/nomad_job.py): through the service for
# clients, or through one of its own where clients speak gRPC only.
REPLICAS = 'count(up{{{of}, service=~".+-(openai|engine)"}} == 1)'


def ask(applied: Applied, inputs: PlanInputs, *, window_s: int) -> dict[str, Measured]:
    """Measurements of each model. CliError when the environment does not answer."""
    metrics = {name: engine_of(model).metrics for name, model in inputs.models.items()}
    try:
        return measure(applied, metrics, window_s=window_s)
    except httpx.HTTPError as error:
        raise CliError(
            f"Prometheus of {applied.environment} does not answer: {error}",
            fix=f"slipway status -s {applied.environment} shows what runs, and what to do if"
            " nothing does; then run the same command again",
        ) from None


def measure(
    applied: Applied, metrics: Mapping[str, EngineMetrics], *, window_s: int
) -> dict[str, Measured]:
    """By model name, as are `metrics`. Raises httpx.HTTPError when Prometheus does not answer."""
    with Prometheus(applied) as client:
        return {model: _model(client, model, names, window_s) for model, names in metrics.items()}


def _model(client: Prometheus, model: str, metrics: EngineMetrics, window_s: int) -> Measured:
    of = f'model="{model}"'

    def p95(name: str) -> float | None:
        return client.number(P95.format(name=name, of=of, window=window_s))

    def rate(name: str) -> float:
        return client.number(RATE.format(name=name, of=of, window=window_s)) or 0.0

    def mean(name: str) -> float | None:
        return client.number(MEAN.format(name=name, of=of, window=window_s))

    requests_per_s, output_per_s = rate(metrics.requests), rate(metrics.output_tokens)
    return Measured(
        window_s=window_s,
        replicas=int(client.number(REPLICAS.format(of=of)) or 0),
        requests_per_s=requests_per_s,
        output_tokens_per_s=output_per_s,
        concurrency=mean(metrics.running) or 0.0,
        kv_cache_usage=mean(metrics.kv_cache_usage),
        input_tokens=_per_request(rate(metrics.input_tokens), requests_per_s),
        output_tokens=_per_request(output_per_s, requests_per_s),
        ttft_ms=_mean_ms(rate(f"{metrics.ttft}_sum"), rate(f"{metrics.ttft}_count")),
        tpot_ms=_mean_ms(rate(f"{metrics.tpot}_sum"), rate(f"{metrics.tpot}_count")),
        ttft_p95_ms=p95(metrics.ttft),
        tpot_p95_ms=p95(metrics.tpot),
    )


def _mean_ms(seconds_per_s: float, observations_per_s: float) -> float | None:
    return 1000 * seconds_per_s / observations_per_s if observations_per_s else None


def _per_request(tokens_per_s: float, requests_per_s: float) -> float | None:
    return tokens_per_s / requests_per_s if requests_per_s else None
