"""NomadCluster: Nomad's servers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from components import seeds
from components.base import SlipwayComponent
from components.consul import acl
from components.consul.task_roles import task_roles
from components.gossip import replaced_key
from components.hosts.document import SECRETS_VERSION, secrets_document
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from components.joining.protocol import Joining
from components.nomad.agent_config import (
    KEY_PUBLISHER,
    MANAGEMENT,
    NAME,
    jwks_url,
    server_document,
    server_secrets,
)
from components.servers import servers_in_turn
from slipway.plan.platform import PlatformPlan

ACL_SCHEMA_VERSION = 1
LEADER_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class NomadClusterArgs:
    plan: PlatformPlan
    hosts: HostRealisation
    consul_address: str
    consul_seed: pulumi.Input[str]
    consul_token: pulumi.Input[str]
    consul_ready: list[pulumi.Resource]
    certificates: Mapping[str, pulumi.Output[Mapping[str, str]]]  # of the servers, by name
    authority: pulumi.Input[str]  # PEM: verifies the publishers of the workloads' keys


class NomadCluster(SlipwayComponent):
    """Nomad's servers, its ACL bootstrap, and the permissions of its workloads in Consul.

    Owns the server agents, the publishers of the keys of workload identities, the seed of their
    secrets, the management token, and Consul's auth method for workload identities with its binding
    rules. Leaves alone jobs, their counts, policies and node pools. A changed configuration
    restarts only the server it belongs to. Replacing the seed changes the management token, which a
    bootstrapped cluster refuses: `slipway down` first. Removing the component deletes the servers'
    data: every job's history, but not the jobs' tasks.

    Attributes: `address` (as the operator's machine asks it, plain), `token` (the operator's,
    secret), `servers` (for nodes to depend on, so that they leave while Nomad still runs), `ready`
    (for users of the cluster to depend on).
    """

    def __init__(
        self, name: str, args: NomadClusterArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        plan, hosts = args.plan, args.hosts
        self.address = plan.operator.nomad.url
        super().__init__("NomadCluster", name, {"servers": len(plan.servers)}, opts)
        seed = self.random_seed(name)
        self.token = seed.apply(lambda known: seeds.token(known, MANAGEMENT))
        replaced = replaced_key(
            self,
            name,
            plan,
            hosts.programs,
            plan.operator.nomad,
            seed=seed,
            token=self.token,
            depends_on=args.consul_ready,
        )
        self.servers = servers_in_turn(
            self,
            name,
            plan,
            hosts,
            document=lambda server: server_document(plan, server, hosts.supervision, hosts.joining),
            secrets=lambda server: _secrets_of(args, server.name, seed),
            depends_on=[*args.consul_ready, *replaced],
        )
        bootstrap = hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="nomad_acl.py",
                document=acl_document(self.address),
                secrets=secret_json(self.token.apply(operator_secrets)),
                removes=False,
            ),
            f"{name}-acl",
            self,
            depends_on=self.servers,
        )
        workloads = hosts.programs.run(
            HostProgram(
                bundle=plan.operator.bundle,
                script="consul_acl.py",
                document=acl.workload_document(
                    args.consul_address,
                    jwks_url(plan),
                    task_roles(plan),
                    hosts.joining.log_ins,
                ),
                secrets=secret_json(
                    pulumi.Output.all(args.consul_token, args.authority).apply(
                        lambda both: acl.workload_secrets(*both)
                    )
                ),
                removes=False,  # the rules are deleted with Consul's data
            ),
            f"{name}-workloads",
            self,
            depends_on=[bootstrap],
        )
        self.ready: list[pulumi.Resource] = [workloads]
        self.register_outputs({"address": self.address})


def acl_document(address: str) -> dict[str, object]:
    """The document for services/operator/nomad_acl.py (schemas/nomad-acl.schema.json)."""
    return {
        "schema_version": ACL_SCHEMA_VERSION,
        "address": address,
        "leader_timeout_s": LEADER_TIMEOUT_S,
    }


def operator_secrets(token: str) -> dict[str, object]:
    return {"schema_version": SECRETS_VERSION, "management_token": token}


def _secrets_of(
    args: NomadClusterArgs, host: str, seed: pulumi.Output[str]
) -> pulumi.Output[Mapping[str, Any]]:
    known = pulumi.Output.all(
        seed=seed, consul_seed=args.consul_seed, certificate=args.certificates[host]
    )
    gossip_key = args.plan.security.gossip_key
    return known.apply(functools.partial(_server_secrets, args.hosts.joining, host, gossip_key))


def _server_secrets(
    joining: Joining, host: str, gossip_key: int, known: dict[str, Any]
) -> dict[str, object]:
    consul_token = joining.nomad_token(host, known["consul_seed"])
    agents = {
        NAME: server_secrets(known["seed"], consul_token, gossip_key=gossip_key),
        KEY_PUBLISHER: {},
    }
    return secrets_document(agents, known["certificate"])
