"""Measurements of all models at once, for a page that is drawn every few seconds.

`measured.py` asks more of each model. Here the number of queries does not grow with the models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cli.applied import Applied
from cli.clusters.prometheus import Prometheus
from slipway.planner.engines.adapter import EngineMetrics
from slipway.planner.engines.registry import ENGINES

WINDOW_S = 60
RATE = "sum by (model) (rate({name}[{window}s]))"
NOW = "sum by (model) ({name})"
P95_MS = "1000 * histogram_quantile(0.95, sum by (model, le) (rate({name}_bucket[{window}s])))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a model served in the last WINDOW_S; None where Prometheus has no sample."""

    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    running: float | None = None  # sequences in the batches of all replicas, now
    ttft_p95_ms: float | None = None
    tpot_p95_ms: float | None = None


def served(applied: Applied) -> dict[str, Served]:
    """By model name. Raises httpx.HTTPError when Prometheus does not answer."""
    names = [model.name for model in applied.models]
    with Prometheus(applied) as client:
        columns = {
            field: _by_model(client, [_query(field, metrics) for metrics in _metrics(applied)])
            for field in Served.__dataclass_fields__
        }
    return {
        name: Served(**{field: values.get(name) for field, values in columns.items()})
        for name in names
    }


def _metrics(applied: Applied) -> set[EngineMetrics]:
    """Engines that name their metrics alike are asked for together."""
    return {ENGINES[model.engine].metrics for model in applied.models}


def _query(field: str, metrics: EngineMetrics) -> str:
    template, name = {
        "requests_per_s": (RATE, metrics.requests),
        "output_tokens_per_s": (RATE, metrics.output_tokens),
        "running": (NOW, metrics.running),
        "ttft_p95_ms": (P95_MS, metrics.ttft),
        "tpot_p95_ms": (P95_MS, metrics.tpot),
    }[field]
    return template.format(name=name, window=WINDOW_S)


def _by_model(client: Prometheus, queries: Iterable[str]) -> Mapping[str, float]:
    found = (each for query in queries for each in client.series(query))
    return {each.labels.get("model", ""): each.value for each in found if math.isfinite(each.value)}
