"""Recorded previews as the official plugins would have written them.

What they add was measured with nomad 2.6.1, consul 3.15.1 and random 4.21: their bridge's own keys
at every level, the defaults among the inputs, nulls, and computed outputs as reasons of a change.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from slipway.diff.effects import JOB

BRIDGED = ("nomad:", "consul:", "random:")
JOB_DEFAULTS = {"deregisterOnDestroy": True, "deregisterOnIdChange": True, "detach": True}
COMPUTED = ("allocationIds", "modifyIndex", "region", "status")


def as_official(document: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for step in found.get("steps") or []:
        states = [step[key] for key in ("oldState", "newState") if step.get(key)]
        if not states or not states[0]["type"].startswith(BRIDGED):
            continue
        for state in states:
            _bridge(state)
        if step.get("diffReasons"):
            _name_outputs(step, states[0]["type"])
        if len(states) == 2:  # a newer bridge lists one more
            states[1]["inputs"]["__defaults"].append("consulToken")
    return found


def _bridge(state: dict[str, Any]) -> None:
    defaults = JOB_DEFAULTS if state["type"] == JOB else {}
    inputs = state.setdefault("inputs", {})
    left_out = {name: value for name, value in defaults.items() if name not in inputs}
    for nested in _objects(list(inputs.values())):
        nested["__defaults"] = []
    inputs |= {**left_out, "__defaults": sorted(left_out)}
    if "outputs" in state:
        outputs = state["outputs"]
        if state["type"] == JOB:
            outputs |= {"deploymentId": None, "deploymentStatus": None, "policyOverride": None}
        outputs["__meta"] = '{"schema_version":"0"}'
        outputs["__pulumi_raw_state_delta"] = {"obj": {}}


def _name_outputs(step: dict[str, Any], type_: str) -> None:
    """As the engine's document lists a provider's detailed differences."""
    computed = ["name", *COMPUTED] if type_ == JOB else []
    step["diffReasons"] = sorted(["__meta", "__defaults", *step["diffReasons"], *computed])
    if step.get("replaceReasons") and type_ == JOB:
        step["replaceReasons"] = ["__meta", "name"]
    kind = "update-replace" if step.get("replaceReasons") else "update"
    step["detailedDiff"] = {
        name: {"kind": kind, "inputDiff": False} for name in step["diffReasons"]
    }


def _objects(values: list[Any]) -> Iterator[dict[str, Any]]:
    for value in values:
        if isinstance(value, dict):
            yield value
            yield from _objects(list(value.values()))
        elif isinstance(value, list):
            yield from _objects(value)
