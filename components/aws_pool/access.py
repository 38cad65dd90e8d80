"""What a node of an elastic pool may do in AWS. Pure."""

from __future__ import annotations

from typing import Any

from components.aws_machine.access import decryption, policy, reading_secret
from components.aws_pool.names import group_name, object_prefix, secret_name
from slipway.plan.aws import AwsPlan


def of_nodes(environment: str, aws: AwsPlan, pool: str) -> dict[str, Any]:
    """Its pool's secret, and the environment's objects in the bucket; it writes nothing, and tells
    its own group that it has joined or left. AWS cannot limit the last to its own instance."""
    secret = reading_secret(aws, secret_name(environment, pool))
    objects = {
        "Sid": "BootObjects",
        "Effect": "Allow",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{aws.bucket}/{object_prefix(environment)}/*",
    }
    group = f"autoScalingGroup:*:autoScalingGroupName/{group_name(environment, pool)}"
    lifecycle = {
        "Sid": "OwnGroup",
        "Effect": "Allow",
        "Action": [
            "autoscaling:CompleteLifecycleAction",
            "autoscaling:RecordLifecycleActionHeartbeat",
        ],
        "Resource": f"arn:aws:autoscaling:{aws.region}:*:{group}",
    }
    return policy(secret, objects, lifecycle, *decryption(aws, "secretsmanager", "s3"))
