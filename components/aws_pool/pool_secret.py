"""What every node of a pool must know now (schemas/pool-secret.schema.json)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from components.hosts.artifacts import of_replicas
from components.joining.protocol import Joining
from components.node_pool.node_document import OWN_NAME, node_secrets
from slipway.plan.platform import PlatformPlan


def pool_secret(
    plan: PlatformPlan, pool: str, joining: Joining, known: Mapping[str, Any]
) -> dict[str, Any]:
    """`known`: the `seed` of Consul's secrets, and the files of the pool's `certificate`."""
    folders = of_replicas(plan, pool)
    return {
        **node_secrets(joining, OWN_NAME, plan.security.gossip_key, known),
        "artifacts": {"folders": list(folders), "digest": artifacts_digest(plan, pool)},
    }


def running_artifacts(plan: PlatformPlan, pool: str) -> str:
    """The object in the bucket: what jobs in the pool run, once they are as planned."""
    return json.dumps(of_replicas(plan, pool)) + "\n"


def artifacts_digest(plan: PlatformPlan, pool: str) -> str:
    """By which a node says which artifacts it has."""
    return hashlib.sha256(json.dumps(of_replicas(plan, pool)).encode()).hexdigest()
