"""Who may do what on AWS: roles, and the bucket of an environment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rules.facts import Unevaluable, flag_or_none, text
from rules.rule import (
    ALWAYS,
    AWS_BUCKET_ACCESS,
    AWS_BUCKET_POLICY,
    AWS_ROLE,
    AWS_ROLE_POLICY,
    Resource,
    rule,
)

_SECRET_ARN = re.compile(r"arn:[^:]*:secretsmanager:[^:]*:[^:]*:secret:(?P<name>.*)-\?{6}")
# Who reads a secret is in its name: slipway/ENVIRONMENT/pools/POOL or .../hosts/HOST.
_OWNERS = {"pools": "slipway-{environment}-pool-{owner}", "hosts": "slipway-{environment}-{owner}"}
_BUCKET_FLAGS = (
    "blockPublicAcls",
    "blockPublicPolicy",
    "ignorePublicAcls",
    "restrictPublicBuckets",
)


@rule(
    AWS_ROLE_POLICY,
    severity=ALWAYS,
    why="A secret holds a pool's keys or a host's identity: a machine with another's secret passes"
    " as a node of that pool, or as that host.",
    fix="Let the role read the one secret that carries its name.",
)
def reads_secret_of_others(policy: Resource) -> Iterator[str]:
    """A role reads its own secret only"""
    role = text(policy.props, "role")
    for statement in _allowed(text(policy.props, "policy")):
        if not any(
            _covers(action, "secretsmanager:GetSecretValue") for action in statement.actions
        ):
            continue
        for arn in statement.resources:
            named = _SECRET_ARN.fullmatch(arn)
            if named is None or role != _owner(named["name"]):
                yield f"lets {role} read {arn}"


@rule(
    AWS_ROLE_POLICY,
    severity=ALWAYS,
    why="Whoever takes over a machine has everything that its role may do.",
    fix="Name the actions, and the resources by ARN.",
)
def wide_role(policy: Resource) -> Iterator[str]:
    """A role names its actions and resources"""
    for statement in _allowed(text(policy.props, "policy")):
        if not statement.actions or not statement.resources:
            yield "allows everything except what it lists"
        for action in statement.actions:
            if action.rpartition(":")[2] == "*" or action == "*":
                yield f"allows {action}"
        if "*" in statement.resources and not statement.limited:
            yield f"allows {', '.join(statement.actions)} on every resource"


@rule(
    AWS_ROLE,
    severity=ALWAYS,
    why="Whoever may assume the role of a node may join the clusters as one.",
    fix="Let the service ec2.amazonaws.com assume it, and nobody else.",
)
def role_for_others(role: Resource) -> Iterator[str]:
    """Only EC2 assumes the roles of machines"""
    for statement in _statements(text(role.props, "assumeRolePolicy")):
        if statement.get("Effect") == "Allow" and statement.get("Principal") != {
            "Service": "ec2.amazonaws.com"
        }:
            yield "can be assumed by others than EC2"


@rule(
    AWS_BUCKET_ACCESS,
    severity=ALWAYS,
    why="The bucket holds what every new machine runs.",
    fix="Set all four flags: " + ", ".join(f"`{flag}`" for flag in _BUCKET_FLAGS) + ".",
)
def public_bucket(access: Resource) -> Iterator[str]:
    """The bucket blocks public access"""
    for key in _BUCKET_FLAGS:
        if not flag_or_none(access.props, key):
            yield f"does not set `{key}`"


@rule(
    AWS_BUCKET_POLICY,
    severity=ALWAYS,
    why="Whoever writes to the bucket decides what new machines run; and a request without TLS can"
    " be read and changed on its way.",
    fix="Deny requests without TLS (`aws:SecureTransport`), and allow by the policies of roles.",
)
def bucket_policy(policy: Resource) -> Iterator[str]:
    """The bucket's policy refuses plain HTTP and allows nothing"""
    statements = _statements(text(policy.props, "policy"))
    if not any(_denies_plain_http(statement) for statement in statements):
        yield "does not refuse requests without TLS"
    if any(statement.get("Effect") == "Allow" for statement in statements):
        yield "allows something, which is the policies of roles to do"


class _Allowed:
    """What a statement allows; without `Action` or `Resource` it excepts instead of listing."""

    def __init__(self, statement: Mapping[str, Any]) -> None:
        self.actions = _listed(statement.get("Action"))
        self.resources = _listed(statement.get("Resource"))
        self.limited = bool(statement.get("Condition"))


def _allowed(document: str) -> list[_Allowed]:
    return [_Allowed(each) for each in _statements(document) if each.get("Effect") == "Allow"]


def _statements(document: str) -> Sequence[Mapping[str, Any]]:
    try:
        statements = json.loads(document)["Statement"]
    except (ValueError, KeyError, TypeError):
        raise Unevaluable("the policy is not a document of IAM") from None
    found = [statements] if isinstance(statements, Mapping) else statements
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise Unevaluable("the policy is not a document of IAM")
    return found


def _listed(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(each) for each in _sequence(value))


def _sequence(value: object) -> Sequence[object]:
    if not isinstance(value, Sequence):
        raise Unevaluable("the policy is not a document of IAM")
    return value


def _covers(pattern: str, action: str) -> bool:
    """Actions compare without case; `*` and `?` are IAM's wildcards."""
    parts = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(parts, action, re.IGNORECASE) is not None


def _owner(secret: str) -> str | None:
    """The role that a secret belongs to; None when its name does not say."""
    match secret.split("/"):
        case ["slipway", environment, kind, owner] if kind in _OWNERS and "*" not in secret:
            return _OWNERS[kind].format(environment=environment, owner=owner)
        case _:
            return None


def _denies_plain_http(statement: Mapping[str, Any]) -> bool:
    return (
        statement.get("Effect") == "Deny"
        and statement.get("Principal") in ("*", {"AWS": "*"})
        and statement.get("Action") in ("*", "s3:*")
        and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
    )
