"""What a rule is: a pure function over one resource, with its reason and its fix."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

PLATFORM = "slipway:index:Platform"
MODEL_SERVICE = "slipway:index:ModelService"
NODE_POOL = "slipway:index:NodePool"
CONSUL_CLUSTER = "slipway:index:ConsulCluster"
NOMAD_CLUSTER = "slipway:index:NomadCluster"
GATEWAY = "slipway:index:Gateway"
NOMAD_JOB = "nomad:index/job:Job"
NOMAD_ACL_POLICY = "nomad:index/aclPolicy:AclPolicy"
CONSUL_KEYS = "consul:index/keys:Keys"
COMMAND = "command:local:Command"
AWS_AUTO_SCALING_GROUP = "aws:autoscaling/group:Group"
AWS_BUCKET_ACCESS = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
AWS_BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
AWS_DEFAULT_SECURITY_GROUP = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
AWS_EGRESS_RULE = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
AWS_INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
AWS_INSTANCE = "aws:ec2/instance:Instance"
AWS_LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AWS_LOAD_BALANCER = "aws:lb/loadBalancer:LoadBalancer"
AWS_ROLE = "aws:iam/role:Role"
AWS_ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
AWS_SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
AWS_SUBNET = "aws:ec2/subnet:Subnet"


class Level(Enum):
    """`MANDATORY` blocks, `ADVISORY` is shown, `OFF` is not judged."""

    OFF = "off"
    ADVISORY = "advisory"
    MANDATORY = "mandatory"


class Stage(Enum):
    DEVELOPMENT = "development"
    STAGING = "staging"
    PRODUCTION = "production"


@dataclass(frozen=True, kw_only=True)
class Severity:
    """A rule's level by the stage of the environment."""

    development: Level
    staging: Level
    production: Level

    def at(self, stage: Stage) -> Level:
        levels = {
            Stage.DEVELOPMENT: self.development,
            Stage.STAGING: self.staging,
            Stage.PRODUCTION: self.production,
        }
        return levels[stage]


ALWAYS = Severity(development=Level.MANDATORY, staging=Level.MANDATORY, production=Level.MANDATORY)
ADVICE = Severity(development=Level.ADVISORY, staging=Level.ADVISORY, production=Level.ADVISORY)
SHARED = Severity(development=Level.ADVISORY, staging=Level.MANDATORY, production=Level.MANDATORY)
PRODUCTION = Severity(development=Level.OFF, staging=Level.ADVISORY, production=Level.MANDATORY)
PRODUCTION_ADVICE = Severity(development=Level.OFF, staging=Level.OFF, production=Level.ADVISORY)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a preview does not say. `usd_per_hour_before`: the cost of the running environment."""

    today: datetime.date
    allowed_licenses: frozenset[str] = frozenset()
    max_price_age_days: int = 90
    usd_per_hour_before: float | None = None


@dataclass(frozen=True, kw_only=True)
class Resource:
    """`props` are the inputs at preview; `protect` is None where the preview does not say."""

    type: str
    name: str
    props: Mapping[str, Any]
    settings: Settings
    protect: bool | None = None


Find = Callable[[Resource], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`find` yields a sentence for every violation, or raises Unevaluable (rules.facts). It never
    quotes a secret, although the properties may hold one."""

    id: str
    title: str
    types: tuple[str, ...]
    severity: Severity
    why: str
    fix: str
    find: Find

    @property
    def link(self) -> str:
        """Its section, relative to the project."""
        return f"docs/policies.md#{self.id}"


def rule(*types: str, severity: Severity, why: str, fix: str) -> Callable[[Find], Rule]:
    """Turns a function into a rule: its name becomes the ID, its docstring the title."""

    def make(find: Find) -> Rule:
        return Rule(
            id=find.__name__.replace("_", "-"),
            title=(find.__doc__ or "").strip(),
            types=types,
            severity=severity,
            why=why,
            fix=fix,
            find=find,
        )

    return make
