"""The agents of a pool's nodes: a Consul client and a Nomad client each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from components.consul import agent_config as consul
from components.hosts.document import host_document, secrets_document
from components.hosts.firewall import firewall, needs_firewall
from components.hosts.supervision import Supervision
from components.joining.protocol import Joining
from components.nomad import agent_config as nomad
from components.nomad.addresses import OWN_ADDRESS, beside
from components.serving.nomad_job import ending_s, replacement_s
from slipway.plan.platform import ModelPlan, Node, PlatformPlan, Pool

GATE_SCHEMA_VERSION = 2
READY_TIMEOUT_S = 120
S_PER_HOUR = 3600
OWN_NAME = "@host@"  # of a node of a range


def node_document(
    plan: PlatformPlan, pool: Pool, node: Node, supervision: Supervision, joining: Joining
) -> dict[str, Any]:
    """A node's two agents, and the clusters it leaves when it is removed."""
    nomad_client = dataclasses.replace(
        nomad.client_agent(plan, pool, node, drain_timeout_s=drain_timeout_s(plan, pool)),
        starts_after=_prerequisites(plan, node),
    )
    agents = [consul.client_agent(plan, node), nomad_client]
    return host_document(
        node.name,
        agents,
        supervision.section(plan.node_agent, agents),
        departure={
            "consul": plan.consul.url,
            "nomad": plan.nomad.url,
            "drain_timeout_s": drain_timeout_s(plan, pool),
        },
        joining=joining.joining(plan),
        firewall=firewall(plan, pool) if needs_firewall(plan, pool) else None,
    )


def any_node(plan: PlatformPlan, pool: Pool) -> Node:
    """A node of a range, which fills in its name and address when it joins. All nodes have the same
    ports (docs/adr/0005-all-nodes-share-a-port-range.md)."""
    known = plan.pool(plan.monitoring.pool).hosts[0]
    return dataclasses.replace(known, name=OWN_NAME, pool=pool.name, address=OWN_ADDRESS)


def node_secrets(
    joining: Joining, host: str, gossip_key: int, known: Mapping[str, Any]
) -> dict[str, Any]:
    """`known`: the `seed` of Consul's secrets, and the files of the host's `certificate`;
    `gossip_key`: the key's generation."""
    consul_seed = known["seed"]
    consul_token = joining.consul_token(host, consul_seed)
    nomad_token = joining.nomad_token(host, consul_seed)
    return secrets_document(
        {
            consul.NAME: consul.client_secrets(consul_seed, consul_token, gossip_key=gossip_key),
            nomad.NAME: nomad.client_secrets(nomad_token),
        },
        known["certificate"],
    )


def gate_document(plan: PlatformPlan, pool: Pool) -> dict[str, Any]:
    """The document of services/operator/nomad_nodes.py (schemas/pool-gate.schema.json)."""
    return {
        "schema_version": GATE_SCHEMA_VERSION,
        "address": plan.operator.nomad.url,
        "pool": pool.name,
        "count": pool.nodes_min,
        "ready_timeout_s": READY_TIMEOUT_S,
    }


def drain_timeout_s(plan: PlatformPlan, pool: Pool) -> int:
    """The longest time in which a node's work may move to other nodes: 1, 2, 4, … hours.

    In these steps, because every other number would restart the pool's Nomad clients.
    """
    models = [model for model in plan.models if model.pool == pool.name]
    hours = math.ceil(max([_moving_s(model, pool) for model in models], default=0) / S_PER_HOUR)
    return S_PER_HOUR << max(hours - 1, 0).bit_length()


def _moving_s(model: ModelPlan, pool: Pool) -> int:
    """Nomad moves a model's replicas one by one, each once the one before is replaced. Of replicas
    over several nodes, a node has one member."""
    replicas = 1 if model.replica.nodes > 1 else model.stable.scaling.max_replicas
    if pool.memory_bytes:
        replicas = min(replicas, pool.memory_bytes // model.replica.memory_bytes)
    return replicas * replacement_s(model) + ending_s(model)


def _prerequisites(plan: PlatformPlan, node: Node) -> dict[str, Any]:
    """Waits for the Consul agent's first sync, and for a server that can register the node."""
    return {
        "consul": plan.consul.at(beside(node.address)).url,
        "consul_service": consul.SERVICE,
        "nomad": [server.url for server in plan.on_servers(plan.nomad)],
    }
