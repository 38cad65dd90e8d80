"""ConsulCluster: the servers of Consul and everybody's permissions in it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pulumi
import pulumi_random as random

from components import naming, seeds
from components.base import HostProgram, SlipwayComponent, secret_json
from components.consul import acl
from components.consul.agent_config import NAME, http_address, server_agent, server_secrets
from components.node_pool.host_document import host_document, secrets_document
from slipway.plan.platform import PlatformPlan

SEED_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsulClusterArgs:
    plan: PlatformPlan


class ConsulCluster(SlipwayComponent):
    """Consul's servers, its ACLs, and the seed that all of its secrets come from.

    Owns the server agents and every ACL object whose description begins with "slipway: ". Leaves
    alone the catalog (Nomad's), the routing table (the models') and tokens that people make.
    A changed configuration restarts only the server it belongs to. Replacing the seed gives every
    agent a new gossip key and new tokens, which a running cluster does not accept: `slipway down`
    first. Removing the component deletes the servers' data, KV included.

    Attributes: `address` (plain, of the first server), `token` (secret, of the operator), `seed`
    (secret, for the client agents), `ready` (what users of the cluster depend on).
    """

    def __init__(
        self, name: str, args: ConsulClusterArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan = args.plan
        self.address = http_address(plan.servers[0].address)
        super().__init__("ConsulCluster", name, {"servers": len(plan.servers)}, opts)
        password = random.RandomPassword(
            f"{name}-seed", length=SEED_LENGTH, special=False, opts=self.child_options()
        )
        self.seed: pulumi.Output[str] = pulumi.Output.secret(password.result)
        self.token = self.seed.apply(lambda seed: seeds.token(seed, acl.MANAGEMENT))
        servers = [
            HostProgram(
                bundle=plan.node_agent.bundle,
                script="agents.py",
                document=host_document(server.name, [server_agent(plan, server)], plan.node_agent),
                secrets=secret_json(
                    self.seed.apply(functools.partial(_server_secrets, server.name))
                ),
            ).register(naming.agent(name, server.name), self)
            for server in plan.servers
        ]
        permissions = HostProgram(
            bundle=plan.node_agent.bundle,
            script="consul_acl.py",
            document=acl.acl_document(plan, self.address),
            secrets=secret_json(self.seed.apply(functools.partial(acl.acl_secrets, plan))),
        ).register(f"{name}-acl", self, depends_on=servers)
        self.ready: list[pulumi.Resource] = [permissions]
        self.register_outputs({"address": self.address})


def _server_secrets(host: str, seed: str) -> dict[str, object]:
    return secrets_document({NAME: server_secrets(seed, host)})
