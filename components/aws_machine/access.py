"""Parts of what a machine may do in AWS, as IAM policies. Pure.

Accounts are `*`, because no document may wait for a lookup: an identity's policy gives nothing of
another account unless that account gives it, too.
"""

from __future__ import annotations

from typing import Any

from slipway.plan.aws import AwsPlan

POLICY_VERSION = "2012-10-17"


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": POLICY_VERSION, "Statement": list(statements)}


def assumed_by_instances() -> dict[str, Any]:
    """The trust policy of an instance's role."""
    return policy(
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    )


def reading_secret(aws: AwsPlan, name: str) -> dict[str, Any]:
    """This one secret. AWS ends the name in an ARN with a hyphen and six random characters."""
    return {
        "Sid": "OwnSecret",
        "Effect": "Allow",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": f"arn:aws:secretsmanager:{aws.region}:*:secret:{name}-??????",
    }


def decryption(aws: AwsPlan, *services: str) -> list[dict[str, Any]]:
    """Of what these services of AWS store, with the user's own key. AWS's own keys are open to
    those who may read."""
    if not aws.kms_key:
        return []
    through = [f"{service}.{aws.region}.amazonaws.com" for service in services]
    *_, place = aws.kms_key.split(":")
    alias = place.startswith("alias/")
    condition: dict[str, Any] = {"StringEquals": {"kms:ViaService": through}}
    if alias:
        condition["ForAnyValue:StringEquals"] = {"kms:ResourceAliases": place}
    return [
        {
            "Sid": "Decrypt",
            "Effect": "Allow",
            "Action": "kms:Decrypt",
            "Resource": f"arn:aws:kms:{aws.region}:*:key/*" if alias else aws.kms_key,
            "Condition": condition,
        }
    ]
