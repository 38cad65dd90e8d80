"""What a node of an elastic pool may do in AWS. Pure."""

from __future__ import annotations

from typing import Any

from components.aws_machine.access import decryption, policy, reading_secret
from components.aws_pool.names import object_prefix, secret_name
from slipway.plan.aws import AwsPlan


def of_nodes(environment: str, aws: AwsPlan, pool: str) -> dict[str, Any]:
    """Its pool's secret, and the environment's objects in the bucket; nothing is written."""
    secret = reading_secret(aws, secret_name(environment, pool))
    objects = {
        "Sid": "BootObjects",
        "Effect": "Allow",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{aws.bucket}/{object_prefix(environment)}/*",
    }
    return policy(secret, objects, *decryption(aws, "secretsmanager", "s3"))
