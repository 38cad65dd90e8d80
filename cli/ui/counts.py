"""Why a model has the replicas that it has: the load seen at the gateway, the bounds of its file,
and what the autoscaler did last (components/autoscaling/policy.py has the rule)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cli.applied import AppliedModel
from cli.ui.observation import JobCount, ScalingEvent
from cli.ui.wording import ago

# Envoy's clusters of a model are named after a spec of it, or after all (serving/services.py).
_CLUSTER = re.compile(r"model-(?P<model>.+)-[0-9a-z]+-(?:openai|grpc)")


def in_flight(endpoints: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Requests that Envoy has in flight, by model."""
    found = Counter[str]()
    for endpoint in endpoints:
        if match := _CLUSTER.fullmatch(endpoint["cluster"]):
            found[match["model"]] += endpoint["active_requests"]
    return found


def why(
    model: AppliedModel,
    counts: Iterable[JobCount],
    flying: int | None,
    now_s: float,
    *,
    blind: bool,
) -> str:
    """One sentence for a person. `flying` is None where Envoy does not answer."""
    newest = max(
        (event for count in counts for event in count.events),
        key=lambda event: event.at_s,
        default=None,
    )
    return "; ".join(filter(None, [_rule(model, flying, blind=blind), _last(newest, now_s)]))


def _rule(model: AppliedModel, flying: int | None, *, blind: bool) -> str:
    scaling = model.scaling
    if scaling is None:
        return ""
    least, most = scaling.min_replicas, scaling.max_replicas
    if least == most:
        return "fixed by its file"
    if blind or flying is None:
        return "kept: the autoscaler cannot see the load"
    target = scaling.target_inflight_per_replica
    called_for = math.ceil(flying / target)
    load = f"{flying} in flight at {target} a replica"
    if called_for < least:
        return f"{load}: the minimum, {least}"
    if called_for > most:
        return f"{load} call for {called_for}: the maximum, {most}"
    return f"{load} call for {called_for}"


def _last(event: ScalingEvent | None, now_s: float) -> str:
    if event is None:
        return ""
    when = ago(event.at_s, now_s)
    if event.failed:
        return f"scaling failed {when}: {event.said}"
    if event.count is None or event.count == event.previous:
        return f"{event.said} ({when})"
    return f"scaled from {event.previous} to {event.count}, {when}"
