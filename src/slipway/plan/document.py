"""The plan as a JSON document (schemas/plan.schema.json)."""

from __future__ import annotations

import dataclasses
import json

from .platform import PlatformPlan


def plan_to_json(plan: PlatformPlan) -> str:
    """The whole plan: sorted keys, two spaces, trailing newline; the same text on every run."""
    return json.dumps(dataclasses.asdict(plan), sort_keys=True, indent=2) + "\n"
