"""The platform's last half hour in numbers, for the charts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from cli.applied import Applied
from cli.clusters.prometheus import Prometheus
from slipway.planner.engines.registry import ENGINES

SPAN_S, STEP_S = 1800, 15


def charts(applied: Applied, now_s: float | None = None) -> dict[str, Any]:
    """The times (Unix seconds), and for each chart a value at each of them; null where Prometheus
    has none. Raises httpx.HTTPError when it does not answer."""
    end_s = int(now_s or time.time()) // STEP_S * STEP_S
    start_s = end_s - SPAN_S
    drawn = []
    with Prometheus(applied) as client:
        for title, unit, query in _queries(applied):
            line = client.timeline(query, start_s=start_s, end_s=end_s, step_s=STEP_S)
            drawn.append({"title": title, "unit": unit, "values": list(line.values())})
    return {"times": list(range(start_s, end_s + 1, STEP_S)), "charts": drawn}


def _queries(applied: Applied) -> Sequence[tuple[str, str, str]]:
    metrics = {ENGINES[model.engine].metrics for model in applied.models}
    if not metrics:
        return ()
    names: Mapping[str, list[str]] = {
        field: sorted({getattr(each, field) for each in metrics})
        for field in ("output_tokens", "ttft")
    }
    tokens = " or ".join(f"rate({name}[60s])" for name in names["output_tokens"])
    first = " or ".join(f"rate({name}_bucket[60s])" for name in names["ttft"])
    return (
        (
            "Requests in flight",
            "",
            'sum(envoy_cluster_upstream_rq_active{envoy_cluster_name=~"model-.+"})',
        ),
        ("Output tokens per second", "tokens/s", f"sum({tokens})"),
        (
            "Time to first token, p95",
            "ms",
            f"1000 * histogram_quantile(0.95, sum by (le) ({first}))",
        ),
    )
