"""The scaling policy of a model: requests in flight, counted where they all pass."""

from __future__ import annotations

from typing import Any

from slipway.plan.platform import AutoscalingPlan, ModelPlan

# A scale-in waits for this long without the load; scale-out answers the latest sample.
SCALE_IN_WINDOW_S = 60


def inflight_policy(model: ModelPlan, autoscaling: AutoscalingPlan) -> dict[str, Any]:
    """Replicas = ceil(requests in flight / target), kept inside the job's own min and max.

    Envoy sees every request of both doors; Triton's counters are wrong for decoupled models. The
    strategy is `pass-through` (the query's value is the count), so the formula stands in one
    place. The API form of a policy block is a list with one map for each label.
    """
    return {
        "cooldown": f"{model.scaling.cooldown_s}s",
        "evaluation_interval": f"{autoscaling.evaluation_interval_s}s",
        "check": [
            {
                "inflight": [
                    {
                        "source": "prometheus",
                        "query": replicas_wanted_query(model),
                        "strategy": [{"pass-through": [{}]}],
                    }
                ]
            }
        ],
    }


def replicas_wanted_query(model: ModelPlan) -> str:
    """PromQL for the wanted count: total (a failed or empty query freezes the whole policy).

    It counts the load of all specs of the model. While a changed spec starts, the old one has all
    of the load: by its own, the new job would go down to its minimum just before the route moves.
    """
    # After the name comes a spec's digest or "all": one word, so `llama` has none of `llama-8b`.
    clusters = f'envoy_cluster_name=~"model-{model.name}-[0-9a-z]+-(openai|grpc)"'
    inflight = f"(sum(envoy_cluster_upstream_rq_active{{{clusters}}}) or vector(0))"
    peak = f"max_over_time({inflight}[{SCALE_IN_WINDOW_S}s:5s])"
    target = model.scaling.target_inflight_per_replica
    return f"ceil({peak} / {target})"
