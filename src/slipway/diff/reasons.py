"""Which of the properties that the engine names stand for a real change.

The official plugins name more: their bridge's internal properties, and outputs that are recomputed
whenever an input changes (of a job: `allocationIds`, `modifyIndex`, `status`, …).
"""

from __future__ import annotations

from collections.abc import Collection

from slipway.diff.change import Resource
from slipway.diff.effects import JOB

# Internal properties of pulumi-terraform-bridge.
BRIDGE_KEYS = frozenset({"__defaults", "__meta", "__pulumi_raw_state_delta"})


def other_changes(
    named: Collection[str], resource: Resource, changed: Collection[str]
) -> tuple[str, ...]:
    """Properties that differ besides `changed`, the inputs known to differ.

    An output counts only where no input differs, such as the `status` of a job that has ended.
    """
    inputs = _inputs(named, resource)
    found = inputs if inputs or changed else _own(named)
    return tuple(name for name in found if name not in changed)


def cause_of_replace(
    named: Collection[str], resource: Resource, changed: Collection[str]
) -> tuple[str, ...]:
    """The inputs that force a replace; where only outputs are named, the inputs they derive
    from."""
    inputs, own = _inputs(named, resource), _own(named)
    if inputs or not own:
        return inputs
    if resource.type == JOB:
        return ("jobspec",)  # which holds the job's name and namespace
    return tuple(sorted(changed)) or own


def _own(named: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in named if name not in BRIDGE_KEYS)


def _inputs(named: Collection[str], resource: Resource) -> tuple[str, ...]:
    given = {*(resource.before or {}), *(resource.after or {})}
    return tuple(name for name in _own(named) if name in given)
