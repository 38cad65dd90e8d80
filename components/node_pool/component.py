"""NodePool: the nodes of one shape."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from components import naming
from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import CertificateAuthority
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from components.node_pool.node_document import (
    drain_timeout_s,
    gate_document,
    node_document,
    node_secrets,
)
from components.nomad.component import operator_secrets
from slipway.plan.facts import pool_facts
from slipway.plan.platform import Node, PlatformPlan, Pool

START_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolArgs:
    plan: PlatformPlan
    pool: Pool
    hosts: HostRealisation
    consul_seed: pulumi.Input[str]
    nomad_token: pulumi.Input[str]
    operator_secrets: pulumi.Output[str]  # both clusters' tokens, for programs
    authority: CertificateAuthority
    servers: list[pulumi.Resource]  # both clusters' servers, and the permissions of Consul's agents
    clusters_ready: list[pulumi.Resource]  # the servers and permissions of both clusters


class NodePool(SlipwayComponent):
    """The client agents of a pool's nodes, and the gate that waits until the nodes take work.

    Owns each node's Consul client and Nomad client, and what the clusters know of the node. Leaves
    alone what runs on the nodes: a changed configuration restarts the agent it belongs to, and
    tasks keep running. Removing a node drains it first and deletes its data, including the logs of
    its allocations.

    On hosts of their own, nodes change one after the other, or a tenth of the pool at a time.

    A node that has its tokens already does not wait until permissions are set up in Nomad: its
    Consul agent starts meanwhile, and its Nomad client waits by itself
    (services/host/host/prerequisites.py). One that must be admitted does.

    Attribute: `ready` (for the pool's jobs to depend on).
    """

    def __init__(
        self, name: str, args: NodePoolArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan, pool, hosts = args.plan, args.pool, args.hosts
        super().__init__("NodePool", name, pool_facts(pool), opts)
        documents = {
            node.name: node_document(plan, pool, node, hosts.supervision, hosts.joining)
            for node in pool.hosts
        }
        certificates = {
            node.name: args.authority.issue(identities.node(plan, node)) for node in pool.hosts
        }
        at_once = max(1, int(len(documents) * hosts.changed_at_once))
        nodes: list[pulumi.Resource] = []
        for node in pool.hosts:
            before = _before(nodes, at_once)
            # An admission comes after the same: each dependency takes the SDK time on every host.
            after = self._admissions(args, node, before) or [*args.servers, *before]
            program = _agents(args, node, documents[node.name], certificates[node.name])
            nodes.append(
                hosts.programs.run(
                    program, naming.node(node.name), self, on=node.name, depends_on=after
                )
            )
        gate = hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="nomad_nodes.py",
                document=gate_document(plan, pool),
                secrets=secret_json(pulumi.Output.secret(args.nomad_token).apply(operator_secrets)),
                removes=False,
                inputs_of_others=_digest(documents),
            ),
            f"{name}-ready",
            self,
            depends_on=[*args.clusters_ready, *nodes],
        )
        self.ready: list[pulumi.Resource] = [gate]
        self.register_outputs({"nodes": [node.name for node in pool.hosts]})

    def _admissions(
        self, args: NodePoolArgs, node: Node, before: list[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        """The operator's part of a node's life, if the target has one. It comes after everything
        that takes long, because what it brings to the node soon expires."""
        document = args.hosts.joining.admission(args.plan, node)
        if document is None:
            return []
        admission = args.hosts.programs.run(
            HostProgram(
                bundle=args.plan.operator.bundle,
                script="admit.py",
                document=document,
                secrets=args.operator_secrets,
            ),
            naming.admission(node.name),
            self,
            depends_on=[
                *args.clusters_ready,
                *before,
                *args.hosts.programs.preparation(node.name, self),
            ],
        )
        return [admission]


def _agents(
    args: NodePoolArgs,
    node: Node,
    document: Mapping[str, Any],
    certificate: pulumi.Output[Mapping[str, str]],
) -> HostProgram:
    plan, joining = args.plan, args.hosts.joining
    known = pulumi.Output.all(seed=args.consul_seed, certificate=certificate)
    secrets = functools.partial(node_secrets, joining, node.name, plan.security.gossip_key)
    return HostProgram(
        bundle=plan.node_agent.bundle,
        script="agents.py",
        document=document,
        secrets=secret_json(known.apply(secrets)),
        # A removal may wait for two consecutive drains (services/host/host/departure.py).
        timeout_s=START_TIMEOUT_S + 2 * drain_timeout_s(plan, args.pool),
    )


def _before(nodes: list[pulumi.Resource], at_once: int) -> list[pulumi.Resource]:
    """The node that the next one waits for, so that no more than `at_once` change together."""
    return [nodes[-at_once]] if len(nodes) >= at_once else []


def _digest(documents: dict[str, dict[str, object]]) -> str:
    """Changes with any node's document: the gate then waits again until the nodes take work."""
    content = json.dumps(documents, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:12]
