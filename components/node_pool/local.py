"""A pool's nodes as processes on this machine: each has a Consul client and a Nomad client."""

from __future__ import annotations

from typing import Any

from components.consul import agent_config as consul
from components.node_pool.host_document import SCHEMA_VERSION, host_document, secrets_document
from components.nomad import agent_config as nomad
from slipway.plan.platform import Node, PlatformPlan, Pool

READY_TIMEOUT_S = 120


def node_document(plan: PlatformPlan, pool: Pool, node: Node) -> dict[str, Any]:
    """A node's two agents, and whom to tell when it goes."""
    server = plan.servers[0].address
    return host_document(
        node.name,
        [consul.client_agent(plan, node), nomad.client_agent(plan, pool, node)],
        plan.node_agent,
        departure={
            "consul": consul.http_address(server),
            "nomad": nomad.http_address(server),
            "drain_timeout_s": drain_timeout_s(plan),
        },
    )


def node_secrets(host: str, consul_seed: str) -> dict[str, Any]:
    return secrets_document(
        {
            consul.NAME: consul.client_secrets(consul_seed, host),
            nomad.NAME: nomad.client_secrets(consul_seed, host),
        }
    )


def gate_document(plan: PlatformPlan, pool: Pool) -> dict[str, Any]:
    """What services/node/nomad_nodes.py waits for."""
    return {
        "schema_version": SCHEMA_VERSION,
        "address": nomad.http_address(plan.servers[0].address),
        "pool": pool.name,
        "nodes": [node.name for node in pool.nodes],
        "ready_timeout_s": READY_TIMEOUT_S,
    }


def drain_timeout_s(plan: PlatformPlan) -> int:
    """As long as the slowest replica may take to end its requests; a minute without models."""
    return max((model.replica.drain_timeout_s for model in plan.models), default=60)
