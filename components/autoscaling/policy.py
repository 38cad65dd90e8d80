"""The scaling policy of a model: requests in flight, counted at the gateway that all pass
through."""

from __future__ import annotations

from typing import Any

from slipway.plan.platform import AutoscalingPlan, ModelPlan, Release

ENVOY_METRICS = "envoy-admin"  # the service under which Prometheus finds Envoy's statistics

# Scale-in follows the peak over this window; scale-out follows the latest sample.
SCALE_IN_WINDOW_S = 60


def inflight_policy(
    model: ModelPlan, release: Release, autoscaling: AutoscalingPlan
) -> dict[str, Any]:
    """Replicas = ceil(requests in flight / target), bounded by the job's own min and max.

    Envoy sees every request of both protocols; Triton's counters are wrong for decoupled models.
    The strategy is `pass-through` (the query's value is the count), so the formula is in one place.
    In the API, a policy block is a list with one map per label.
    """
    return {
        "cooldown": f"{release.scaling.cooldown_s}s",
        "evaluation_interval": f"{autoscaling.evaluation_interval_s}s",
        "check": [
            {
                "inflight": [
                    {
                        "source": "prometheus",
                        "query": replicas_wanted_query(model, release, envoys=autoscaling.envoys),
                        "strategy": [{"pass-through": [{}]}],
                    }
                ]
            }
        ],
    }


def replicas_wanted_query(model: ModelPlan, release: Release, *, envoys: int) -> str:
    """PromQL for the wanted count; while an Envoy is not scraped it has no result, which keeps the
    count.

    Envoy reports only statistics that it has used, so a model without a series has no load,
    provided that all `envoys` are scraped: the load of a missing one is unknown.

    The query counts the load of all specs of the release. While a changed spec starts, the old one
    has all the load: by its own load, the new job would scale in to its minimum just before the
    route moves.
    """
    # The name is followed by a digest or "all", a single word, so `llama` does not match
    # `llama-8b`.
    clusters = f'envoy_cluster_name=~"model-{model.name}-[0-9a-z]+-(openai|grpc)"'
    all_are_seen = f'(count(up{{service="{ENVOY_METRICS}"}} == 1) >= {envoys})'
    inflight = f"(sum(envoy_cluster_upstream_rq_active{{{clusters}}}) or vector(0))"
    peak = f"max_over_time(({inflight} and {all_are_seen})[{SCALE_IN_WINDOW_S}s:5s])"
    target = release.scaling.target_inflight_per_replica
    return f"ceil({peak} / {target}) and {all_are_seen}"
