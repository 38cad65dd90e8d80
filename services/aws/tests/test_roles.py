"""What each role may do and what not, by moto's own evaluator of policies. It judges actions and
resources, and no conditions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moto.iam.access_control import IAMPolicy, PermissionResult

ROLES = json.loads(
    (Path(__file__).parents[3] / "tests" / "golden" / "aws" / "roles.json").read_text()
)
ACCOUNT, OTHER_REGION = "123456789012", "eu-west-1"
READ, GET = "secretsmanager:GetSecretValue", "s3:GetObject"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012"
OTHER_KEY = KEY[:-1] + "3"
SERVER, EDGE = "endpoints: slipway-fleet-server-0", "endpoints: slipway-fleet-edge-0"
L4, H100 = "endpoints: slipway-fleet-pool-l4", "endpoints: slipway-fleet-pool-h100"
WITH_KEY, POOL_WITH_KEY = "nat: slipway-fleet-server-0", "nat: slipway-fleet-pool-l4"


def secret(name: str, region: str = "us-east-1", end: str = "-a1B2c3") -> str:
    return f"arn:aws:secretsmanager:{region}:{ACCOUNT}:secret:{name}{end}"


def stored(key: str, bucket: str = "acme-slipway-prod") -> str:
    return f"arn:aws:s3:::{bucket}/{key}"


def group(name: str) -> str:
    number = "12345678-1234-1234-1234-123456789012"
    place = f"autoScalingGroup:{number}:autoScalingGroupName/{name}"
    return f"arn:aws:autoscaling:us-east-1:{ACCOUNT}:{place}"


COMPLETE = "autoscaling:CompleteLifecycleAction"
HEARTBEAT = "autoscaling:RecordLifecycleActionHeartbeat"
HOST, POOL = "slipway/fleet/hosts", "slipway/fleet/pools"
# role, action, resource, whether it is allowed
TABLE: list[tuple[str, str, str, bool]] = [
    (SERVER, READ, secret(f"{HOST}/server-0"), True),
    (SERVER, READ, secret(f"{HOST}/server-1"), False),
    (SERVER, READ, secret(f"{HOST}/edge-0"), False),
    (SERVER, READ, secret(f"{HOST}/server-0", OTHER_REGION), False),
    (SERVER, READ, secret(f"{HOST}/server-01"), False),
    (SERVER, READ, secret(f"{HOST}/server-0", end="-other-a1B2c3"), False),
    (SERVER, READ, secret(f"{HOST}/server-0", end=""), False),
    (SERVER, READ, secret(f"{POOL}/l4"), False),
    (SERVER, READ, secret("slipway/other/hosts/server-0"), False),
    (SERVER, READ, "*", False),
    (SERVER, "secretsmanager:PutSecretValue", secret(f"{HOST}/server-0"), False),
    (SERVER, "secretsmanager:DeleteSecret", secret(f"{HOST}/server-0"), False),
    (SERVER, "secretsmanager:ListSecrets", "*", False),
    (SERVER, GET, stored("fleet/boot/l4-00.json"), False),
    (SERVER, "kms:Decrypt", KEY, False),
    (SERVER, "sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/slipway-fleet-edge-0", False),
    (SERVER, "ec2:RunInstances", "*", False),
    (SERVER, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/slipway-fleet-edge-0", False),
    (EDGE, READ, secret(f"{HOST}/edge-0"), True),
    (EDGE, READ, secret(f"{HOST}/edge-1"), False),
    (EDGE, READ, secret(f"{POOL}/l4"), False),
    (L4, READ, secret(f"{POOL}/l4"), True),
    (L4, READ, secret(f"{POOL}/h100"), False),
    (L4, READ, secret(f"{HOST}/server-0"), False),
    (L4, READ, secret(f"{POOL}/l4-other"), False),
    (L4, READ, secret("slipway/other/pools/l4"), False),
    (L4, GET, stored("fleet/boot/l4-00.json"), True),
    (L4, GET, stored("fleet/artifacts/bundles/aws-00.tar"), True),
    (L4, GET, stored("other/boot/l4-00.json"), False),
    (L4, GET, stored("fleet-other/boot/l4-00.json"), False),
    (L4, GET, stored("fleet/boot/l4-00.json", "another-bucket"), False),
    (L4, "s3:PutObject", stored("fleet/boot/l4-00.json"), False),
    (L4, "s3:DeleteObject", stored("fleet/boot/l4-00.json"), False),
    (L4, "s3:ListBucket", "arn:aws:s3:::acme-slipway-prod", False),
    (L4, "kms:Decrypt", KEY, False),
    (L4, "ec2:TerminateInstances", "*", False),
    (L4, "autoscaling:SetDesiredCapacity", "*", False),
    (L4, "sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/slipway-fleet-pool-h100", False),
    (L4, "ssm:GetParameter", f"arn:aws:ssm:us-east-1:{ACCOUNT}:parameter/x", False),
    (L4, COMPLETE, group("slipway-fleet-l4"), True),
    (L4, HEARTBEAT, group("slipway-fleet-l4"), True),
    (L4, COMPLETE, group("slipway-fleet-h100"), False),
    (L4, COMPLETE, group("slipway-other-l4"), False),
    (L4, "autoscaling:TerminateInstanceInAutoScalingGroup", group("slipway-fleet-l4"), False),
    (H100, HEARTBEAT, group("slipway-fleet-l4"), False),
    (SERVER, COMPLETE, group("slipway-fleet-l4"), False),
    (H100, READ, secret(f"{POOL}/h100"), True),
    (H100, READ, secret(f"{POOL}/l4"), False),
    (H100, GET, stored("fleet/boot/h100-00.json"), True),
    (WITH_KEY, "kms:Decrypt", KEY, True),
    (WITH_KEY, "kms:Decrypt", OTHER_KEY, False),
    (WITH_KEY, "kms:Encrypt", KEY, False),
    (POOL_WITH_KEY, "kms:Decrypt", KEY, True),
    (POOL_WITH_KEY, "kms:GenerateDataKey", KEY, False),
]


@pytest.mark.parametrize(("role", "action", "resource", "allowed"), TABLE)
def test_a_role_may_do_what_its_machine_needs_and_nothing_else(
    role: str, action: str, resource: str, allowed: bool
) -> None:
    # AWS's ? is any character, for which moto has no sign but that of regular expressions.
    text = json.dumps(ROLES[role]).replace("?", ".")
    policy = IAMPolicy({"policy_document": text})
    result = policy.is_action_permitted(action, resource=resource)
    assert (result == PermissionResult.PERMITTED) is allowed


def test_the_table_has_forty_rows_and_every_role_of_the_environments() -> None:
    assert len(TABLE) >= 40
    assert {role.partition(": ")[2] for role in ROLES} >= {
        f"slipway-fleet-{name}" for name in ("server-0", "edge-1", "pool-l4", "pool-h100")
    }


def test_keys_are_used_through_the_services_that_store_with_them() -> None:
    uses = {WITH_KEY: ["secretsmanager"], POOL_WITH_KEY: ["secretsmanager", "s3"]}
    for role, services in uses.items():
        *_, decrypting = ROLES[role]["Statement"]
        through = decrypting["Condition"]["StringEquals"]["kms:ViaService"]
        assert through == [f"{service}.us-east-1.amazonaws.com" for service in services]
