"""How many replicas a load needs, with headroom for the time the next one takes to start."""

from __future__ import annotations

import math

from slipway.config.load import Load
from slipway.plan.figures import Figure, ServingEstimate

# (startup s, utilization at which the goal still holds): the slower a replica starts, the more
# headroom the running ones need. Simulated elsewhere: 300 s -> 69 %, 45 s -> 83 %.
SAFE_UTILIZATION = ((45.0, 0.83), (300.0, 0.69))
SAFE_UTILIZATION_SOURCE = "simulated elsewhere: 83 % at 45 s of startup, 69 % at 300 s"


def safe_utilization(startup_s: float) -> float:
    """Share of a replica's capacity to plan with, interpolated between the two known points."""
    (fast_s, most), (slow_s, least) = SAFE_UTILIZATION
    share = (min(max(startup_s, fast_s), slow_s) - fast_s) / (slow_s - fast_s)
    return most + share * (least - most)


def replicas_needed(requests_per_s: float, per_replica: Figure, *, startup_s: float) -> Figure:
    """Replicas for `requests_per_s` when one sustains `per_replica` of them."""
    utilization = safe_utilization(startup_s)

    def replicas(capacity: float) -> int:
        return max(1, math.ceil(requests_per_s / (capacity * utilization) - 1e-9))

    return Figure(
        value=replicas(per_replica.value),
        unit="replicas",
        basis=per_replica.basis,
        source=(
            f"{requests_per_s:g} requests/s / ({per_replica.value:.2f} of a replica x"
            f" {utilization:.0%} safe utilization), rounded up; {SAFE_UTILIZATION_SOURCE}"
        ),
        low=None if per_replica.high is None else replicas(per_replica.high),
        high=None if not per_replica.low else replicas(per_replica.low),
    )


def utilization(load: Load | None, serving: ServingEstimate | None, replicas: int) -> float:
    """Load over what the replicas sustain within the goal; 0 where that is unknown."""
    if load is None or serving is None or not serving.requests_per_s.value:
        return 0.0
    return load.requests_per_s / (replicas * serving.requests_per_s.value)
