"""What a node of an elastic pool may do in AWS. Pure. Accounts are `*`, as for fixed hosts."""

from __future__ import annotations

from typing import Any

from components.aws_hosts.access import decryption, policy
from components.aws_pool.names import object_prefix, secret_name
from slipway.plan.aws import AwsPlan


def of_nodes(environment: str, aws: AwsPlan, pool: str) -> dict[str, Any]:
    """Its pool's secret, and the environment's objects in the bucket; nothing is written."""
    secret = {
        "Sid": "OwnSecret",
        "Effect": "Allow",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": f"arn:aws:secretsmanager:{aws.region}:*:secret:"
        f"{secret_name(environment, pool)}-??????",
    }
    objects = {
        "Sid": "BootObjects",
        "Effect": "Allow",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{aws.bucket}/{object_prefix(environment)}/*",
    }
    return policy(secret, objects, *decryption(aws, "secretsmanager", "s3"))
