"""The comment's content as JSON, for scripts."""

from __future__ import annotations

import dataclasses
from typing import Any

from slipway.diff.change import OPS, Preview, Stamp
from slipway.diff.comment import cause_of
from slipway.diff.domain import summary
from slipway.diff.policies import PolicyReport
from slipway.diff.verdict import notable, verdict_of

SCHEMA_VERSION = 1


def diff_document(preview: Preview, policies: PolicyReport | None, stamp: Stamp) -> dict[str, Any]:
    """`policies` is null when they were not run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": preview.environment,
        "verdict": verdict_of(preview),
        "blocked": bool(policies and policies.blocked),
        "counts": {**{op: preview.count(op) for op in OPS}, "same": preview.unchanged},
        "notable": [
            {"op": each.op, "name": each.name, "urn": each.urn, "cause": cause_of(each)}
            for each in notable(preview)
        ],
        "summary": [dataclasses.asdict(row) for row in summary(preview)],
        "policies": None
        if policies is None
        else [dataclasses.asdict(finding) for finding in policies.findings],
        "changes": [dataclasses.asdict(change) for change in preview.changes],
        "errors": list(preview.errors),
        "warnings": list(preview.warnings),
        "compared_with": preview.compared_with,
        "stamp": dataclasses.asdict(stamp),
    }
