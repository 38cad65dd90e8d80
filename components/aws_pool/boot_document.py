"""What an instance of an elastic pool needs to become a node: its boot document
(schemas/boot.schema.json), and the user data that names it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from components.aws_machine.cloud_config import at_home, cloud_config, service_unit
from components.aws_pool.lifecycle import heartbeat_s
from components.aws_pool.names import (
    JOINED_HOOK,
    LEFT_HOOK,
    group_name,
    object_prefix,
    running_key,
    secret_name,
    sts_url,
)
from components.hosts import artifacts
from components.hosts.delivery import CACHE, run_folder, scratch_folder
from components.hosts.supervision import Supervision
from components.joining.protocol import Joining
from components.node_pool.node_document import any_node, node_document
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan, Pool

SCHEMA_VERSION = 1  # of the boot document, and of the file that names it
FILE = "/etc/slipway-boot.json"
UNIT = "slipway-boot.service"
# Of services/aws, before an instance has fetched anything.
OF_EVERY_INSTANCE = (
    "boot.py",
    "instance/__init__.py",
    "instance/artifacts.py",
    "instance/metadata.py",
    "instance/objects.py",
    "instance/refusal.py",
    "instance/signing.py",
)


def boot_document(
    plan: PlatformPlan, aws: AwsPlan, pool: Pool, supervision: Supervision, joining: Joining
) -> dict[str, Any]:
    """schemas/boot.schema.json"""
    return {
        "schema_version": SCHEMA_VERSION,
        "environment": plan.environment,
        "pool": pool.name,
        "region": aws.region,
        "bucket": aws.bucket,
        "prefix": f"{object_prefix(plan.environment)}/artifacts",
        "folder": CACHE,
        "folders": {
            "run": run_folder(plan.environment),
            "scratch": scratch_folder(plan.environment),
        },
        "artifacts": list(node_artifacts(plan, aws, pool)),
        "bundle": aws.bundle,
        "agents": plan.node_agent.bundle,
        "running": running_key(plan.environment, pool.name),
        "secret": secret_name(plan.environment, pool.name),
        "sts": sts_url(aws),
        "introducers": {
            "addresses": [each.url for each in aws.introducers],
            "server_name": plan.peers.introducer,
        },
        **_model_store(aws, pool),
        "node": _node(plan, pool, supervision, joining),
        "group": {
            "name": group_name(plan.environment, pool.name),
            "joined": JOINED_HOOK,
            "left": LEFT_HOOK,
            "heartbeat_s": heartbeat_s(plan, pool),
        },
    }


def _model_store(aws: AwsPlan, pool: Pool) -> dict[str, Any]:
    """What a node makes of its own disks."""
    store = pool.model_store
    if store is None or not aws.pools[pool.name].local_store:
        return {}
    return {"model_store": {"path": store.path, "size_bytes": store.size_bytes}}


def node_artifacts(plan: PlatformPlan, aws: AwsPlan, pool: Pool) -> tuple[str, ...]:
    """Folders of the cache that a node cannot start without: not those of models, which change more
    often than machines are replaced."""
    found = artifacts.of_agents(plan, any_node(plan, pool))
    return tuple(sorted({*found, f"bundles/{aws.bundle}"}))


def _node(
    plan: PlatformPlan, pool: Pool, supervision: Supervision, joining: Joining
) -> dict[str, Any]:
    """A host that no operator removes from the clusters: it does so itself."""
    document = node_document(plan, pool, any_node(plan, pool), supervision, joining)
    return {**document, "departure": {**document["departure"], "by_itself": True}}


def as_text(document: Mapping[str, Any]) -> str:
    """The object in the bucket: its digest is part of the user data, so it must be stable."""
    return json.dumps(document, sort_keys=True) + "\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def object_key(environment: str, pool: str, text: str) -> str:
    return f"{object_prefix(environment)}/boot/{pool}-{digest(text)}.json"


def user_data(
    environment: str, aws: AwsPlan, pool: str, text: str, programs: Mapping[str, str]
) -> str:
    """`text` is the boot document's; `programs` are the files of services/aws that an instance has
    before it has fetched anything."""
    named = {
        "schema_version": SCHEMA_VERSION,
        "region": aws.region,
        "bucket": aws.bucket,
        "key": object_key(environment, pool, text),
        "sha256": digest(text),
    }
    return cloud_config(
        files={FILE: json.dumps(named, sort_keys=True) + "\n", **at_home(programs)},
        unit=UNIT,
        content=service_unit("This instance as a node of its pool", "boot.py", FILE),
        users=[],  # nobody logs in
        ssh_pwauth=False,
    )
