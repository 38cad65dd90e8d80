"""NomadCluster: the servers of Nomad."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pulumi
import pulumi_random as random

from components import naming, seeds
from components.base import HostProgram, SlipwayComponent, secret_json
from components.consul import acl
from components.node_pool.host_document import SCHEMA_VERSION, host_document, secrets_document
from components.nomad.agent_config import (
    MANAGEMENT,
    NAME,
    http_address,
    jwks_url,
    server_agent,
    server_secrets,
)
from slipway.plan.platform import PlatformPlan

SEED_LENGTH = 64
LEADER_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class NomadClusterArgs:
    plan: PlatformPlan
    consul_address: str
    consul_seed: pulumi.Input[str]
    consul_token: pulumi.Input[str]
    consul_ready: list[pulumi.Resource]


class NomadCluster(SlipwayComponent):
    """Nomad's servers, its ACL bootstrap, and what Nomad's workloads may do in Consul.

    Owns the server agents, the seed of their secrets, the management token, and Consul's auth
    method for workload identities with its binding rules. Leaves alone jobs, their counts,
    policies and node pools. A changed configuration restarts only the server it belongs to.
    Replacing the seed means another management token, which a bootstrapped cluster refuses:
    `slipway down` first. Removing the component deletes the servers' data: every job's history,
    not the jobs' tasks.

    Attributes: `address` (plain, of the first server), `token` (secret, of the operator), `ready`
    (what users of the cluster depend on).
    """

    def __init__(
        self, name: str, args: NomadClusterArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan = args.plan
        self.address = http_address(plan.servers[0].address)
        super().__init__("NomadCluster", name, {"servers": len(plan.servers)}, opts)
        password = random.RandomPassword(
            f"{name}-seed", length=SEED_LENGTH, special=False, opts=self.child_options()
        )
        seed: pulumi.Output[str] = pulumi.Output.secret(password.result)
        self.token = seed.apply(lambda known: seeds.token(known, MANAGEMENT))
        both = pulumi.Output.all(seed, args.consul_seed)
        servers = [
            HostProgram(
                bundle=plan.node_agent.bundle,
                script="agents.py",
                document=host_document(server.name, [server_agent(plan, server)], plan.node_agent),
                secrets=secret_json(both.apply(functools.partial(_server_secrets, server.name))),
            ).register(naming.agent(name, server.name), self, depends_on=args.consul_ready)
            for server in plan.servers
        ]
        bootstrap = HostProgram(
            bundle=plan.node_agent.bundle,
            script="nomad_acl.py",
            document={
                "schema_version": SCHEMA_VERSION,
                "address": self.address,
                "leader_timeout_s": LEADER_TIMEOUT_S,
            },
            secrets=secret_json(self.token.apply(operator_secrets)),
        ).register(f"{name}-acl", self, depends_on=servers)
        workloads = HostProgram(
            bundle=plan.node_agent.bundle,
            script="consul_acl.py",
            document=acl.workload_document(args.consul_address, jwks_url(plan)),
            secrets=secret_json(
                pulumi.Output.secret(args.consul_token).apply(acl.workload_secrets)
            ),
            removes=False,  # the rules go with Consul's data
        ).register(f"{name}-workloads", self, depends_on=[bootstrap])
        self.ready: list[pulumi.Resource] = [workloads]
        self.register_outputs({"address": self.address})


def operator_secrets(token: str) -> dict[str, object]:
    return {"schema_version": SCHEMA_VERSION, "management_token": token}


def _server_secrets(host: str, both: list[str]) -> dict[str, object]:
    seed, consul_seed = both
    return secrets_document({NAME: server_secrets(seed, consul_seed, host)})
