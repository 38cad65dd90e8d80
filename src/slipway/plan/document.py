"""Plans as JSON documents (schemas/plan.schema.json)."""

from __future__ import annotations

import dataclasses
import json

from .platform import PlatformPlan


def plan_to_json(plan: PlatformPlan, *, before: PlatformPlan | None = None) -> str:
    """The whole plan, and the plan before a change, if any. Keys are sorted, the indent is two
    spaces and the text ends with a newline; it is the same on every run."""
    document = dataclasses.asdict(plan)
    if before is not None:
        document["before"] = dataclasses.asdict(before)
    return json.dumps(document, sort_keys=True, indent=2) + "\n"
