"""NodePool: the nodes of one shape."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass

import pulumi

from components import naming
from components.base import HostProgram, SlipwayComponent, secret_json
from components.node_pool.local import drain_timeout_s, gate_document, node_document, node_secrets
from components.nomad.component import operator_secrets
from slipway.plan.facts import FACTS_VERSION
from slipway.plan.platform import PlatformPlan, Pool

START_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolArgs:
    plan: PlatformPlan
    pool: Pool
    consul_seed: pulumi.Input[str]
    nomad_token: pulumi.Input[str]
    clusters_ready: list[pulumi.Resource]  # both clusters' servers and permissions


class NodePool(SlipwayComponent):
    """The client agents of a pool's nodes, and the gate that waits until the nodes take work.

    Owns each node's Consul client and Nomad client. Leaves alone what runs on the nodes: a changed
    configuration restarts the agent it belongs to, and the tasks go on. Removing a node drains it
    first and deletes its data, logs of its allocations included.

    Attribute: `ready` (what jobs of the pool depend on).
    """

    def __init__(
        self, name: str, args: NodePoolArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan, pool = args.plan, args.pool
        super().__init__("NodePool", name, _facts(pool), opts)
        seed = pulumi.Output.secret(args.consul_seed)
        documents = {node.name: node_document(plan, pool, node) for node in pool.nodes}
        nodes = [
            HostProgram(
                bundle=plan.node_agent.bundle,
                script="agents.py",
                document=document,
                secrets=secret_json(seed.apply(functools.partial(node_secrets, host))),
                # A removal may wait for two drains in a row (services/node/departure.py).
                timeout_s=START_TIMEOUT_S + 2 * drain_timeout_s(plan),
            ).register(naming.node(host), self, depends_on=args.clusters_ready)
            for host, document in documents.items()
        ]
        gate = HostProgram(
            bundle=plan.node_agent.bundle,
            script="nomad_nodes.py",
            document=gate_document(plan, pool),
            secrets=secret_json(pulumi.Output.secret(args.nomad_token).apply(operator_secrets)),
            removes=False,
            inputs_of_others=_digest(documents),
        ).register(f"{name}-ready", self, depends_on=nodes)
        self.ready: list[pulumi.Resource] = [gate]
        self.register_outputs({"nodes": [node.name for node in pool.nodes]})


def _facts(pool: Pool) -> dict[str, object]:
    """What policies read at preview (schemas/facts.schema.json)."""
    return {
        "schema_version": FACTS_VERSION,
        "pool": pool.name,
        "kind": pool.kind,
        "nodes": len(pool.nodes),
        "memory_bytes": pool.memory_bytes,
        "cpu_mhz": pool.cpu_mhz,
        "accelerator": pool.accelerator,
        "accelerators_per_node": pool.accelerators_per_node,
    }


def _digest(documents: dict[str, dict[str, object]]) -> str:
    """A node that was changed has to take work again before the pool counts as ready."""
    content = json.dumps(documents, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:12]
