"""The scaling policy of a model: requests in flight, counted at the gateway, which every request
passes through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.serving.services import services_matching
from slipway.plan.platform import STABLE, AutoscalingPlan, ModelPlan, Release

ENVOY_METRICS = "envoy-metrics"  # the service under which Prometheus finds Envoy's statistics

# Scale-in follows the peak over this window; scale-out follows the latest sample.
SCALE_IN_WINDOW_S = 60
LOOK_BACK_S = 600  # after a gap


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
                        "query": replicas_wanted_query(model, release, autoscaling),
                        "strategy": [{"pass-through": [{}]}],
                    }
                ]
            }
        ],
    }


def replicas_wanted_query(model: ModelPlan, release: Release, autoscaling: AutoscalingPlan) -> str:
    """PromQL for the wanted count; while an Envoy is not scraped it has no result, which keeps the
    count.

    Envoy reports only statistics that it has used, so a model without a series has no load,
    provided that all Envoys are scraped: the load of a missing one is unknown. Prometheus answers
    with samples of up to five minutes ago, also after it has stood still itself: an old scrape has
    not seen an Envoy either.

    Right after a gap the window holds few samples, perhaps one. Until a minute has been seen again,
    the peak is that of a longer time, which reaches back to before the gap.

    A job of groups keeps its count also while one of its allocations has no node.

    The query counts the load of all specs of the release. While a changed spec starts, the old one
    has all the load: judged by its own load, the new job would scale in to its minimum just before
    the route moves.
    """
    clusters = ",".join(_matchers(model, release))
    up = f'up{{service="{ENVOY_METRICS}"}}'
    fresh = f"time() - timestamp({up}) < {autoscaling.scrape_valid_s}"
    all_are_seen = f"(count(({up} == 1) and ({fresh})) >= {autoscaling.envoys})"
    inflight = f"(sum(envoy_cluster_upstream_rq_active{{{clusters}}}) or vector(0))"
    load = f"({inflight} and {all_are_seen})"
    window = f"[{SCALE_IN_WINDOW_S}s:5s]"
    peak = (
        f"((max_over_time({load}{window})"
        f" and max_over_time({load}{window} offset {SCALE_IN_WINDOW_S}s))"
        f" or max_over_time({load}[{LOOK_BACK_S}s:15s]))"
    )
    target = release.scaling.target_inflight_per_replica
    members = model.replica.nodes
    groups = f"ceil({peak} / {target})"
    if members == 1:
        return f"{groups} and {all_are_seen}"
    # Nomad counts allocations: a replica over several nodes is a group of them.
    return f"({members} * {groups}) and {all_are_seen} and {_all_are_placed(release)}"


def _all_are_placed(release: Release) -> str:
    """PromQL that has a result while every allocation of the job has a node.

    Nomad scales in by ending as many as it has above the new count, the highest numbers first. With
    one of a lower number missing it would leave another group without its last member, and place
    the missing one no more.
    """
    return f'(sum(nomad_nomad_job_summary_queued{{exported_job="{release.job_id}"}}) == 0)'


def _matchers(model: ModelPlan, release: Release) -> Iterator[str]:
    """PromQL matchers of the Envoy clusters that carry the release's load.

    The stable release's old specs are not in the plan, so it is matched by every cluster of the
    model except those of the plan's other releases.
    """
    if release.name != STABLE:
        yield f'envoy_cluster_name=~"{services_matching(release.service)}"'
        return
    # The name is followed by a digest or "all", a single word, so `llama` does not match
    # `llama-8b`.
    all_specs = services_matching(f"model-{model.name}-[0-9a-z]+")
    yield f'envoy_cluster_name=~"{all_specs}"'
    for other in model.releases:
        if other.service != release.service:
            yield f'envoy_cluster_name!~"{services_matching(other.service)}"'
