"""The effect of a change of a resource on AWS: what restarts, ends or is replaced, in words. Pure.

Which properties AWS changes in place, and which by a replacement, is the provider's to say: a
preview names the operation, and this module what it means for the platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipway.diff.change import Effect, Op, PathChange

Outcome = tuple[Effect, str]

INSTANCE = "aws:ec2/instance:Instance"
AUTO_SCALING_GROUP = "aws:autoscaling/group:Group"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effects:
    """Of one type. `holds_state`: it is a machine or data, or they are in it."""

    update: Outcome = ("safe", "")
    replace: Outcome
    delete: Outcome
    holds_state: bool = False


def _same(outcome: Outcome, update: Outcome = ("safe", "")) -> _Effects:
    """A type that is created anew as it is deleted: what used it waits or fails in between."""
    return _Effects(update=update, replace=outcome, delete=outcome)


_NOBODY_CONNECTS: Outcome = ("disruptive", "clients cannot connect until it is back")
_NO_WAY_OUT: Outcome = ("disruptive", "machines lose their way to AWS's services until it is back")
_UNREACHABLE: Outcome = ("disruptive", "connections that it allowed are refused")
_NO_PERMISSION: Outcome = ("disruptive", "its machines lose their permissions until it is back")
_UNGUARDED: Outcome = ("disruptive", "the bucket is unguarded until it is back")
_EVERYTHING_ENDS: Outcome = ("destructive", "every machine in it ends")

_TYPES = {
    INSTANCE: _Effects(
        replace=("destructive", "the machine ends with its disk, and a new one takes its address"),
        delete=("destructive", "the machine ends with its disk"),
        holds_state=True,
    ),
    AUTO_SCALING_GROUP: _Effects(
        replace=("destructive", "every instance of the pool ends, and new ones start"),
        delete=("destructive", "every instance of the pool ends"),
        holds_state=True,
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": _Effects(
        update=("safe", "instances that run from the earlier one are replaced, a tenth at a time"),
        replace=("disruptive", "no instance starts until the new template is there"),
        delete=("disruptive", "no instance starts from it any more"),
    ),
    "aws:autoscaling/lifecycleHook:LifecycleHook": _same(
        ("disruptive", "instances that end meanwhile are not waited for")
    ),
    "aws:ec2/placementGroup:PlacementGroup": _same(
        ("disruptive", "AWS deletes it only once no instance is in it")
    ),
    "aws:ec2/vpc:Vpc": _Effects(
        replace=_EVERYTHING_ENDS, delete=_EVERYTHING_ENDS, holds_state=True
    ),
    "aws:ec2/subnet:Subnet": _Effects(
        replace=_EVERYTHING_ENDS, delete=_EVERYTHING_ENDS, holds_state=True
    ),
    "aws:ec2/securityGroup:SecurityGroup": _same(_UNREACHABLE),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": _same(("safe", "")),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _same(
        _UNREACHABLE, ("disruptive", "connections that it no longer allows are refused")
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _same(
        _UNREACHABLE, ("disruptive", "connections that it no longer allows are refused")
    ),
    "aws:ec2/internetGateway:InternetGateway": _same(_NO_WAY_OUT),
    "aws:ec2/eip:Eip": _same(("disruptive", "others see the machines under another address")),
    "aws:ec2/natGateway:NatGateway": _same(_NO_WAY_OUT),
    "aws:ec2/route:Route": _same(_NO_WAY_OUT, _NO_WAY_OUT),
    "aws:ec2/routeTable:RouteTable": _same(_NO_WAY_OUT),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _same(_NO_WAY_OUT, _NO_WAY_OUT),
    "aws:ec2/vpcEndpoint:VpcEndpoint": _same(_NO_WAY_OUT, _NO_WAY_OUT),
    "aws:ec2transitgateway/instanceConnectEndpoint:InstanceConnectEndpoint": _same(
        ("disruptive", "nobody reaches the hosts over SSH until it is back")
    ),
    "aws:lb/loadBalancer:LoadBalancer": _same(
        ("disruptive", "clients cannot connect, and its address in DNS changes")
    ),
    "aws:lb/listener:Listener": _same(_NOBODY_CONNECTS),
    "aws:lb/targetGroup:TargetGroup": _same(_NOBODY_CONNECTS),
    "aws:lb/targetGroupAttachment:TargetGroupAttachment": _same(
        ("disruptive", "a host of the gateway gets no new connection and finishes its answers")
    ),
    "aws:iam/role:Role": _same(_NO_PERMISSION, ("safe", "what it may do changes at once")),
    "aws:iam/rolePolicy:RolePolicy": _same(
        _NO_PERMISSION, ("safe", "what its role may do changes at once")
    ),
    "aws:iam/instanceProfile:InstanceProfile": _same(_NO_PERMISSION),
    "aws:secretsmanager/secret:Secret": _Effects(
        replace=("disruptive", "no machine can join until its value is back"),
        delete=("destructive", "what it holds is lost; no machine joins with it any more"),
        holds_state=True,
    ),
    "aws:secretsmanager/secretVersion:SecretVersion": _Effects(
        update=("safe", "machines read the new value within a minute, or when they start"),
        replace=("safe", "machines read the new value within a minute, or when they start"),
        delete=("disruptive", "no machine joins with it any more"),
    ),
    "aws:s3/bucket:Bucket": _Effects(
        replace=("disruptive", "no machine can join until it is filled again"),
        delete=("destructive", "what it holds is lost; no machine joins from it any more"),
        holds_state=True,
    ),
    "aws:s3/bucketObjectv2:BucketObjectv2": _Effects(
        # Objects are named by their content, and earlier ones stay.
        replace=("safe", "machines that start from now on read the new one"),
        delete=("disruptive", "no machine boots from it any more"),
    ),
    "aws:s3/bucketPolicy:BucketPolicy": _same(_UNGUARDED),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": _same(_UNGUARDED),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": _same(
        _UNGUARDED
    ),
}
TYPES = frozenset(_TYPES)


def outcome(op: Op, type_: str, paths: Sequence[PathChange]) -> Outcome:
    """(effect, consequence) of a change of a resource whose type is among `TYPES`."""
    found = _TYPES[type_]
    if op == "delete":
        return found.delete
    if op == "replace":
        return found.replace
    if paths and all(_property(path) in ("tags", "tagsAll", "description") for path in paths):
        return "safe", ""
    if type_ == INSTANCE:
        return _changed_instance(paths)
    if type_ == AUTO_SCALING_GROUP:
        return _changed_group(paths)
    return found.update


def holds_state(type_: str) -> bool:
    """Whether a resource of this type, among `TYPES`, is a machine or data, or holds them."""
    return _TYPES[type_].holds_state


def _changed_instance(paths: Sequence[PathChange]) -> Outcome:
    """AWS changes the type and the user data of a stopped machine only."""
    changed = {_property(path) for path in paths}
    if changed & {"instanceType", "userData", "userDataBase64"} or not changed:
        return "disruptive", "the machine stops and starts again"
    if "vpcSecurityGroupIds" in changed:
        return "disruptive", "its connections are allowed by other groups"
    return "safe", "it changes while the machine runs"


def _changed_group(paths: Sequence[PathChange]) -> Outcome:
    changed = {_property(path): path for path in paths}
    if "maxSize" in changed and not _raised(changed["maxSize"]):
        return "disruptive", "instances above the new maximum end"
    if "launchTemplate" in changed:
        return (
            "safe",
            "running instances are replaced, a tenth at a time",
        )
    if "minSize" in changed and _raised(changed["minSize"]):
        return "safe", "instances start until the new minimum is there"
    return "safe", ""


def _raised(path: PathChange) -> bool:
    """A change whose values are not shown counts as lowered."""
    try:
        return float(path.after or "") > float(path.before or "")
    except ValueError:
        return False


def _property(path: PathChange) -> str:
    return path.path.partition(".")[0].partition("[")[0]
