"""How a pool's nodes are replaced after their template has changed
(schemas/node-refresh.schema.json). Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from components.aws_pool.names import group_name
from slipway.plan.aws import AwsPlan

SCHEMA_VERSION = 1
# Percent of the instances that the group wants, at least and at most: a tenth is started first, or
# leaves first where a reservation has no instance to spare.
STARTED_FIRST, LEAVES_FIRST = (100, 110), (90, 100)


def refresh_document(environment: str, aws: AwsPlan, pool: str, template: str) -> dict[str, Any]:
    """schemas/node-refresh.schema.json; `template` is its digest."""
    least, most = LEAVES_FIRST if aws.pools[pool].reservation else STARTED_FIRST
    return {
        "schema_version": SCHEMA_VERSION,
        "region": aws.region,
        "pool": pool,
        "group": group_name(environment, pool),
        "template": template,
        "min_healthy_percent": least,
        "max_healthy_percent": most,
    }


def template_digest(aws: AwsPlan, pool: str, user_data: str) -> str:
    """Of what a launch template has, as far as edits of files change it."""
    template = {
        "pool": dataclasses.asdict(aws.pools[pool]),
        "kms_key": aws.kms_key,
        "tags": dict(aws.tags),
        "user_data": user_data,
    }
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()
