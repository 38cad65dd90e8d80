"""What a change does to what runs: safe, disruptive or destructive."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.diff.change import Effect, Op, PathChange

JOB = "nomad:index/job:Job"
COMMAND = "command:local:Command"
KEYS = "consul:index/keys:Keys"
ACL_POLICY = "nomad:index/aclPolicy:AclPolicy"
PASSWORD = "random:index/randomPassword:RandomPassword"  # noqa: S105

_ENVELOPE = re.compile(r"(TaskGroups\[[^\]]+\]\.)?(Count|Scaling(\..*)?)$")
_AGENTS = "agents.py"

Outcome = tuple[Effect, str]
HARMLESS: Outcome = ("safe", "")


def outcome(
    op: Op, type_: str, properties: Mapping[str, Any], paths: Sequence[PathChange]
) -> Outcome:
    """(effect, consequence). `properties`: the inputs before the change, or after a create.

    A type that is not known here is judged by its operation alone, and strictly.
    """
    if op == "create" or type_.startswith(("slipway:", "pulumi:")):
        return HARMLESS  # a component itself does nothing: its children are judged
    judge = _JUDGES.get(type_)
    return judge(op, properties, paths) if judge else _stranger(op)


def _job(op: Op, properties: Mapping[str, Any], paths: Sequence[PathChange]) -> Outcome:
    is_model = '"slipway_model"' in str(properties.get("jobspec"))
    if op == "delete":
        if is_model:
            return "destructive", "its replicas drain and end; nobody serves this model any more"
        return "destructive", "the job ends"
    if op == "replace":
        return "disruptive", "new replicas start beside the old ones, which then drain and end"
    if paths and all(_ENVELOPE.search(_below_jobspec(change.path)) for change in paths):
        return "safe", "only the envelope of its count; nothing restarts"
    return "disruptive", "its allocations restart"


def _below_jobspec(path: str) -> str:
    return path.removeprefix("jobspec.")


def _command(op: Op, properties: Mapping[str, Any], _: Sequence[PathChange]) -> Outcome:
    runs_agents = _AGENTS in str(properties.get("create"))
    if op == "update":
        return ("disruptive", "its agents restart; tasks go on") if runs_agents else HARMLESS
    if not properties.get("delete"):
        return HARMLESS  # a gate: it waits, and owns nothing
    if runs_agents:
        return "destructive", "the host is drained, its agents end and their data is deleted"
    return "destructive", "what it made is removed"


def _keys(op: Op, _: Mapping[str, Any], __: Sequence[PathChange]) -> Outcome:
    if op == "update":
        return "safe", "traffic moves when the new endpoints are acknowledged"
    return "disruptive", "the entry leaves Consul, and requests for it end"


def _acl_policy(op: Op, _: Mapping[str, Any], __: Sequence[PathChange]) -> Outcome:
    return HARMLESS if op == "update" else ("disruptive", "permissions are taken away")


def _password(_: Op, __: Mapping[str, Any], ___: Sequence[PathChange]) -> Outcome:
    return "destructive", "every key and token made from it changes"


def _stranger(op: Op) -> Outcome:
    if op == "update":
        return "disruptive", ""
    return "destructive", "what it holds is gone"


_JUDGES = {
    JOB: _job,
    COMMAND: _command,
    KEYS: _keys,
    ACL_POLICY: _acl_policy,
    PASSWORD: _password,
}


def holds_state(type_: str, properties: Mapping[str, Any]) -> bool:
    """Whether it is data or a place where data lives. A type not known here counts as one."""
    if type_ == COMMAND:
        return bool(properties.get("delete"))  # what has nothing to remove holds nothing
    return not type_.startswith(("slipway:", "pulumi:")) and type_ not in (KEYS, ACL_POLICY)
