"""What the operator puts into the bucket (schemas/publication.schema.json). Pure."""

from __future__ import annotations

import json
from typing import Any

from components.aws_machine.access import policy
from components.aws_pool.boot_document import node_artifacts
from components.aws_pool.names import object_prefix
from components.hosts.artifacts import OF_ONE_PYTHON, environments, of_replicas
from components.hosts.delivery import PYTHON
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan

SCHEMA_VERSION = 1


def publication_document(plan: PlatformPlan, aws: AwsPlan) -> dict[str, Any]:
    """schemas/publication.schema.json"""
    found = {each for pool in aws.pools for each in _of_pool(plan, aws, pool)}
    engines = {f"envs/{f}" for name, f in environments(found).items() if name in OF_ONE_PYTHON}
    return {
        "schema_version": SCHEMA_VERSION,
        "bucket": aws.bucket,
        "region": aws.region,
        "prefix": f"{object_prefix(plan.environment)}/artifacts",
        "artifacts": sorted(found),
        "of_one_python": sorted(engines),
        "python": list(PYTHON),
    }


def _of_pool(plan: PlatformPlan, aws: AwsPlan, pool: str) -> set[str]:
    return {*node_artifacts(plan, aws, plan.pool(pool)), *of_replicas(plan, pool)}


def bucket_policy(bucket: str) -> str:
    """Nobody speaks to the bucket without TLS."""
    arn = f"arn:aws:s3:::{bucket}"
    statement = {
        "Sid": "OnlyTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps(policy(statement), sort_keys=True)
