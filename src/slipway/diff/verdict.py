"""One word for a preview, and what has to be said by name before anything else."""

from __future__ import annotations

from typing import Literal

from slipway.diff.change import EFFECTS, Change, Preview

Verdict = Literal["no-op", "safe", "disruptive", "destructive", "failed"]


def verdict_of(preview: Preview) -> Verdict:
    """failed: the preview itself had errors, so its list of changes may be incomplete."""
    if preview.errors:
        return "failed"
    if not preview.changes:
        return "no-op"
    return max((change.effect for change in preview.changes), key=EFFECTS.index)


def notable(preview: Preview) -> tuple[Change, ...]:
    """Every delete and replace of what holds state, is or runs on machines, or stops something;
    the gravest first. Components are not among them: their resources are."""
    named = [change for change in preview.changes if _is_notable(change)]
    return tuple(sorted(named, key=lambda each: -EFFECTS.index(each.effect)))


def _is_notable(change: Change) -> bool:
    if change.op not in ("delete", "replace") or change.type.startswith("slipway:"):
        return False
    return change.holds_state or change.effect != "safe"
