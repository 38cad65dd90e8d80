"""ConsulCluster: Consul's servers and all permissions in Consul."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from components import seeds
from components.base import SlipwayComponent
from components.consul import acl
from components.consul.agent_config import NAME, server_document, server_secrets
from components.consul.task_roles import task_roles
from components.gossip import replaced_key
from components.hosts.document import secrets_document
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from components.joining.protocol import Joining
from components.servers import servers_in_turn
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsulClusterArgs:
    plan: PlatformPlan
    hosts: HostRealisation
    certificates: Mapping[str, pulumi.Output[Mapping[str, str]]]  # of the servers, by name
    operator: pulumi.Resource  # the certificate of the gates is in place


class ConsulCluster(SlipwayComponent):
    """Consul's servers, its ACLs, and the seed of all its secrets.

    Owns the server agents and every ACL object whose description begins with "slipway: ". Leaves
    alone the catalog (Nomad's), the routing table (the models') and tokens created by people. A
    changed configuration restarts only the server it belongs to. Replacing the seed gives every
    agent a new gossip key and new tokens, which a running cluster does not accept: `slipway down`
    first. Removing the component deletes the servers' data, KV included.

    Attributes: `address` (as the operator's machine asks it, plain), `token` (the operator's,
    secret), `seed` (for the client agents, secret), `ready` (for users of the cluster to depend
    on).
    """

    def __init__(
        self, name: str, args: ConsulClusterArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan, hosts = args.plan, args.hosts
        self.address = plan.operator.consul.url
        super().__init__("ConsulCluster", name, {"servers": len(plan.servers)}, opts)
        self.seed = self.random_seed(name)
        self.token = self.seed.apply(lambda seed: seeds.token(seed, acl.MANAGEMENT))
        replaced = replaced_key(
            self,
            name,
            plan,
            hosts.programs,
            plan.operator.consul,
            seed=self.seed,
            token=self.token,
            depends_on=[args.operator],
        )
        servers = servers_in_turn(
            self,
            name,
            plan,
            hosts,
            document=lambda server: server_document(plan, server, hosts.supervision),
            secrets=lambda server: self._server_secrets(args, server.name),
            depends_on=replaced,
        )
        permissions = hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="consul_acl.py",
                document=acl.acl_document(
                    self.address,
                    hosts.joining.tokens(plan),
                    task_roles(plan).values(),
                    hosts.joining.log_ins,
                ),
                secrets=secret_json(
                    self.seed.apply(functools.partial(_acl_secrets, hosts.joining, plan))
                ),
                removes=False,
            ),
            f"{name}-acl",
            self,
            depends_on=[args.operator, *servers],
        )
        self.ready: list[pulumi.Resource] = [permissions]
        self.register_outputs({"address": self.address})

    def _server_secrets(
        self, args: ConsulClusterArgs, host: str
    ) -> pulumi.Output[Mapping[str, Any]]:
        known = pulumi.Output.all(seed=self.seed, certificate=args.certificates[host])
        gossip_key = args.plan.security.gossip_key
        return known.apply(functools.partial(_server_secrets, args.hosts.joining, host, gossip_key))


def _server_secrets(
    joining: Joining, host: str, gossip_key: int, known: dict[str, Any]
) -> dict[str, object]:
    seed, certificate = known["seed"], known["certificate"]
    agents = {NAME: server_secrets(seed, joining.consul_token(host, seed), gossip_key=gossip_key)}
    return secrets_document(agents, certificate)


def _acl_secrets(joining: Joining, plan: PlatformPlan, seed: str) -> dict[str, object]:
    return acl.acl_secrets(joining.token_secrets(plan, seed), seed)
