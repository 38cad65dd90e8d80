"""Plans as JSON documents (schemas/plan.schema.json, schemas/capacity.schema.json)."""

from __future__ import annotations

import dataclasses
import json

from .capacity import CapacityPlan
from .platform import PlatformPlan


def plan_to_json(plan: PlatformPlan) -> str:
    """The whole plan: sorted keys, two spaces, trailing newline; the same text on every run."""
    return json.dumps(dataclasses.asdict(plan), sort_keys=True, indent=2) + "\n"


def capacity_to_json(
    capacity: CapacityPlan,
    *,
    platform: PlatformPlan | None = None,
    before: CapacityPlan | None = None,
) -> str:
    """The capacity plan, with the platform it belongs to and the plan before a change, if any."""
    document = dataclasses.asdict(capacity)
    if platform is not None:
        document["platform"] = dataclasses.asdict(platform)
    if before is not None:
        document["before"] = dataclasses.asdict(before)
    return json.dumps(document, sort_keys=True, indent=2) + "\n"
