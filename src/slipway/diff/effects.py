"""The effect of a change on the running platform: safe, disruptive or destructive."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.diff import aws_effects
from slipway.diff.change import Effect, Op, PathChange

JOB = "nomad:index/job:Job"
COMMAND = "command:local:Command"
KEYS = "consul:index/keys:Keys"
ACL_POLICY = "nomad:index/aclPolicy:AclPolicy"
PASSWORD = "random:index/randomPassword:RandomPassword"  # noqa: S105

_ENVELOPE = re.compile(r"(TaskGroups\[[^\]]+\]\.)?(Count|Scaling(\..*)?)$")
_AGENTS = "agents.py"
_STATUS = "status"  # of a job: differs where the job has ended and is to run again
# Settings of the plugin for a job; a change only registers the same job again.
_SETTINGS = frozenset(
    {
        "deregisterOnDestroy",
        "deregisterOnIdChange",
        "detach",
        "preserveCounts",
        "purgeOnDestroy",
        "readAllocationIds",
        "rerunIfDead",
    }
)

Outcome = tuple[Effect, str]
HARMLESS: Outcome = ("safe", "")


def outcome(
    op: Op, type_: str, properties: Mapping[str, Any], paths: Sequence[PathChange]
) -> Outcome:
    """(effect, consequence). `properties` are the inputs before the change, or after a create.

    An unknown type is judged strictly, by its operation alone.
    """
    if op == "create" or type_.startswith(("slipway:", "pulumi:")):
        return HARMLESS  # a component has no effect of its own: its children are judged
    if type_ in aws_effects.TYPES:
        return aws_effects.outcome(op, type_, paths)
    judge = _JUDGES.get(type_)
    return judge(op, properties, paths) if judge else _unknown_type(op)


def _job(op: Op, properties: Mapping[str, Any], paths: Sequence[PathChange]) -> Outcome:
    is_model = '"slipway_model"' in str(properties.get("jobspec"))
    if op == "delete":
        if is_model:
            return "destructive", "its replicas drain and stop; the model is no longer served"
        return "destructive", "the job ends"
    if op == "replace":
        return "disruptive", "new replicas start beside the old ones, which then drain and stop"
    spec = {change.path for change in paths} - _SETTINGS - {_STATUS}
    if not paths or not all(_ENVELOPE.search(_below_jobspec(path)) for path in spec):
        return "disruptive", "its allocations restart"
    if any(change.path == _STATUS for change in paths):
        return "safe", "it had ended and runs again"
    return "safe", "only the bounds of its count change; nothing restarts" if spec else ""


def _below_jobspec(path: str) -> str:
    return path.removeprefix("jobspec.")


def _command(op: Op, properties: Mapping[str, Any], _: Sequence[PathChange]) -> Outcome:
    runs_agents = _AGENTS in str(properties.get("create"))
    if op == "update":
        return ("disruptive", "its agents restart; tasks keep running") if runs_agents else HARMLESS
    if not properties.get("delete"):
        return HARMLESS  # a gate only waits and owns nothing
    if runs_agents:
        return "destructive", "the host is drained, its agents stop and their data is deleted"
    return "destructive", "what it created is removed"


def _keys(op: Op, _: Mapping[str, Any], __: Sequence[PathChange]) -> Outcome:
    if op == "update":
        return "safe", "traffic moves once the new endpoints are acknowledged"
    return "disruptive", "the entry is deleted from Consul and its requests are no longer routed"


def _acl_policy(op: Op, _: Mapping[str, Any], __: Sequence[PathChange]) -> Outcome:
    return HARMLESS if op == "update" else ("disruptive", "permissions are revoked")


def _password(_: Op, __: Mapping[str, Any], ___: Sequence[PathChange]) -> Outcome:
    return "destructive", "every key and token derived from it changes"


def _unknown_type(op: Op) -> Outcome:
    if op == "update":
        return "disruptive", ""
    return "destructive", "what it holds is lost"


_JUDGES = {
    JOB: _job,
    COMMAND: _command,
    KEYS: _keys,
    ACL_POLICY: _acl_policy,
    PASSWORD: _password,
}


def holds_state(type_: str, properties: Mapping[str, Any]) -> bool:
    """Whether the resource is data or where data is kept. An unknown type counts as one."""
    if type_ == COMMAND:
        return bool(properties.get("delete"))  # a resource without anything to remove holds nothing
    if type_ in aws_effects.TYPES:
        return aws_effects.holds_state(type_)
    return not type_.startswith(("slipway:", "pulumi:")) and type_ not in (KEYS, ACL_POLICY)
