from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.diff.change import Op, PathChange
from slipway.diff.effects import COMMAND, JOB, holds_state, outcome

MODEL = {"jobspec": json.dumps({"Job": {"Meta": {"slipway_model": "llama"}}})}
AGENTS = {"create": "…/agents.py apply", "delete": "…/agents.py remove"}
GATE = {"create": "…/model_ready.py apply"}
ENVELOPE = [PathChange(path="jobspec.TaskGroups[replica].Scaling.Max")]
SETTINGS = [PathChange(path="detach", kind="added"), PathChange(path="rerunIfDead")]
ENDED = [PathChange(path="status")]
SPEC = [*ENVELOPE, PathChange(path="jobspec.TaskGroups[replica].Tasks[server].Driver")]


@pytest.mark.parametrize(
    ("op", "type_", "properties", "paths", "effect"),
    [
        ("create", "aws:ec2/instance:Instance", {}, [], "safe"),
        ("update", JOB, MODEL, ENVELOPE, "safe"),
        ("update", JOB, MODEL, SETTINGS, "safe"),
        ("update", JOB, MODEL, [*SETTINGS, *ENVELOPE], "safe"),
        ("update", JOB, MODEL, [*SETTINGS, *SPEC], "disruptive"),
        ("update", JOB, MODEL, ENDED, "safe"),
        ("update", JOB, MODEL, [*ENDED, *SPEC], "disruptive"),
        ("update", JOB, MODEL, SPEC, "disruptive"),
        ("update", JOB, MODEL, [], "disruptive"),
        ("replace", JOB, MODEL, SPEC, "disruptive"),
        ("delete", JOB, MODEL, [], "destructive"),
        ("update", COMMAND, AGENTS, [], "disruptive"),
        ("delete", COMMAND, AGENTS, [], "destructive"),
        ("replace", COMMAND, AGENTS, [], "destructive"),
        ("update", COMMAND, GATE, [], "safe"),
        ("delete", COMMAND, GATE, [], "safe"),
        ("update", "consul:index/keys:Keys", {}, [], "safe"),
        ("delete", "consul:index/keys:Keys", {}, [], "disruptive"),
        ("update", "nomad:index/aclPolicy:AclPolicy", {}, [], "safe"),
        ("delete", "nomad:index/aclPolicy:AclPolicy", {}, [], "disruptive"),
        ("replace", "random:index/randomPassword:RandomPassword", {}, [], "destructive"),
        ("delete", "slipway:index:NodePool", {}, [], "safe"),
        ("update", "aws:ec2/instance:Instance", {}, [], "disruptive"),
        ("replace", "aws:ec2/instance:Instance", {}, [], "destructive"),
        ("delete", "a:type/nobody:Knows", {}, [], "destructive"),
    ],
)
def test_a_change_has_its_effect_on_the_running_platform(
    op: Op, type_: str, properties: dict[str, Any], paths: list[PathChange], effect: str
) -> None:
    assert outcome(op, type_, properties, paths)[0] == effect


@pytest.mark.parametrize(
    ("type_", "properties", "holds"),
    [
        (COMMAND, AGENTS, True),
        (COMMAND, GATE, False),
        ("aws:ebs/volume:Volume", {}, True),
        ("consul:index/keys:Keys", {}, False),
        ("slipway:index:NodePool", {}, False),
    ],
)
def test_resources_that_hold_state(type_: str, properties: dict[str, Any], holds: bool) -> None:
    assert holds_state(type_, properties) == holds
