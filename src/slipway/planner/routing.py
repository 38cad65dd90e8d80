"""How the gateway chooses the replica of a model's requests."""

from __future__ import annotations

import math

from slipway.config.model import ModelSettings
from slipway.plan.draft import RequestRouting

AFFINITY = "affinity"
FULL_AND_WAITING = 1.5  # batches
LEAST_BOUND_PERCENT, GREATEST_BOUND_PERCENT, BOUND_STEP_PERCENT = 125, 400, 5


def plan_routing(settings: ModelSettings, inflight_per_replica: int) -> RequestRouting:
    """`inflight_per_replica` is the planned number of requests in flight on each replica."""
    routing = settings.routing
    if routing.policy != AFFINITY:
        return RequestRouting(policy=routing.policy)
    return RequestRouting(
        policy=routing.policy,
        key=routing.key,
        session_header=routing.session_header,
        bound_percent=routing.bound_percent
        or bound_percent(inflight_per_replica, settings.engine.max_num_seqs),
    )


def bound_percent(mean: int, batch: int) -> int:
    """The most requests in flight that a replica gets by affinity, in percent of the mean.

    A replica keeps its requests until its batch is full and half a batch waits: to compute a prompt
    again elsewhere delays others more (docs/benchmarks/gateway.md has tighter bounds). Without any
    skew, the number on a replica that gets its requests at random has a standard deviation of √mean
    (Poisson). A tighter bound than two of them would take requests from their replica for nothing
    but noise: at a mean of 10, a bound of 125 % moves 18 % of them.
    """
    mean = max(1, mean)
    percent = 100 * max(FULL_AND_WAITING * batch / mean, 1 + 2 / math.sqrt(mean))
    stepped = BOUND_STEP_PERCENT * math.ceil(percent / BOUND_STEP_PERCENT)
    return min(GREATEST_BOUND_PERCENT, max(LEAST_BOUND_PERCENT, stepped))
