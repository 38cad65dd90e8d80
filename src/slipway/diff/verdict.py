"""A preview's one-word verdict, and the changes that are listed first by name."""

from __future__ import annotations

from typing import Literal

from slipway.diff.change import EFFECTS, Change, Preview

Verdict = Literal["no-op", "safe", "disruptive", "destructive", "failed"]


def verdict_of(preview: Preview) -> Verdict:
    """The verdict; "failed" means the preview had errors, so its list of changes may be
    incomplete."""
    if preview.errors:
        return "failed"
    if not preview.changes:
        return "no-op"
    return max((change.effect for change in preview.changes), key=EFFECTS.index)


def notable(preview: Preview) -> tuple[Change, ...]:
    """Every delete and replace of a resource that holds state, is or runs on a machine, or stops
    something; the most severe first. Components are not listed, but their resources are."""
    named = [change for change in preview.changes if _is_notable(change)]
    return tuple(sorted(named, key=lambda each: -EFFECTS.index(each.effect)))


def _is_notable(change: Change) -> bool:
    if change.op not in ("delete", "replace") or change.type.startswith("slipway:"):
        return False
    return change.holds_state or change.effect != "safe"
