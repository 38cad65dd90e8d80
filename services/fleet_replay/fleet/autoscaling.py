"""The platform's scaling policy: ceil(peak of requests in flight / target), inside min and max."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """As components/autoscaling renders it for the Nomad Autoscaler, with a pass-through strategy.

    `interval_s` is both how often requests in flight are sampled and how often the policy is
    evaluated; after an action it is not evaluated for `cooldown_s`.
    """

    min_replicas: int
    max_replicas: int
    target_inflight_per_replica: int
    cooldown_s: float
    interval_s: float
    window_s: float


class Autoscaler:
    def __init__(self, policy: ScalingPolicy) -> None:
        self.policy = policy
        self._samples: deque[tuple[float, int]] = deque()
        self._quiet_until_s = 0.0

    def wanted(self, now_s: float, in_flight: int, replicas: int) -> int:
        """The count after the evaluation at `now_s`. Call it once per interval."""
        policy = self.policy
        self._samples.append((now_s, in_flight))
        while self._samples[0][0] <= now_s - policy.window_s:
            self._samples.popleft()
        if now_s < self._quiet_until_s:
            return replicas
        peak = max(count for _, count in self._samples)
        wanted = -(-peak // policy.target_inflight_per_replica)
        wanted = min(max(wanted, policy.min_replicas), policy.max_replicas)
        if wanted != replicas:
            self._quiet_until_s = now_s + policy.cooldown_s
        return wanted
