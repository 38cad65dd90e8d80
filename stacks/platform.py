"""PlatformPlan -> components: the only file that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import pulumi
import pulumi_consul as consul
import pulumi_nomad as nomad

from components import naming
from components.autoscaling.component import Autoscaler, AutoscalerArgs
from components.base import SlipwayComponent
from components.certificates import identities
from components.certificates.component import (
    CertificateAuthority,
    CertificateAuthorityArgs,
    OwnAuthority,
)
from components.consul.component import ConsulCluster, ConsulClusterArgs
from components.gateway.certificate_gate import asked_from
from components.gateway.component import Gateway, GatewayArgs, certificate_gate, routes_gate
from components.hosts.program import Hosts
from components.hosts.realisation import HostRealisation
from components.metrics.component import Monitoring, MonitoringArgs
from components.node_pool.component import NodePool, NodePoolArgs
from components.nomad.component import NomadCluster, NomadClusterArgs
from components.serving.component import (
    Discovery,
    ModelService,
    ModelServiceArgs,
    Scheduler,
    gate_secrets,
)
from components.snapshots.component import Snapshots, SnapshotsArgs
from slipway.plan.facts import platform_facts
from slipway.plan.platform import PlatformPlan


class SchedulerOf(Protocol):
    """Makes the scheduler of one environment. Its gates query the clusters with `gate_secrets`."""

    def __call__(
        self, *, plan: PlatformPlan, programs: Hosts, gate_secrets: pulumi.Output[str]
    ) -> Scheduler: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The realisations from which a target's environments are built."""

    hosts: Callable[[PlatformPlan], HostRealisation]  # of one environment
    node_pool: type[NodePool]
    scheduler: SchedulerOf
    discovery: Discovery
    # From deletion and replacement: clusters, pools, and what would be lost with the servers.
    protect: bool


class Platform(SlipwayComponent):
    """The whole platform of one environment: the root of its resource tree.

    Clusters come first, then the pools' nodes, then everything that Nomad runs: the workloads' two
    providers wait for the gates, and every workload uses them.

    `own_authorities` are those that the user brings, by their places in the plan's list.
    """

    def __init__(
        self,
        name: str,
        plan: PlatformPlan,
        target: Target,
        own_authorities: Mapping[int, OwnAuthority] = MappingProxyType({}),
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Platform", name, platform_facts(plan), opts)
        clients = plan.gateway.clients
        self.gateway = {"http": clients.url, "grpc": clients.authority}
        if clients.server_name:
            self.gateway["server_name"] = clients.server_name
        hosts = target.hosts(plan)
        authority = CertificateAuthority(
            "authority",
            CertificateAuthorityArgs(plan=plan, hosts=hosts, own=own_authorities),
            opts=self.child_options(protect=target.protect),
        )
        certificates = {
            server.name: authority.issue(identities.server(plan, server)) for server in plan.servers
        }
        self._consul = ConsulCluster(
            "consul",
            ConsulClusterArgs(
                plan=plan,
                hosts=hosts,
                certificates=certificates,
                operator=authority.operator,
            ),
            opts=self.child_options(protect=target.protect),
        )
        self._nomad = NomadCluster(
            "nomad",
            NomadClusterArgs(
                plan=plan,
                hosts=hosts,
                consul_address=self._consul.address,
                consul_seed=self._consul.seed,
                consul_token=self._consul.token,
                consul_ready=self._consul.ready,
                certificates=certificates,
                authority=authority.pem,
            ),
            opts=self.child_options(protect=target.protect),
        )
        secrets = gate_secrets(self._nomad.token, self._consul.token)
        pools = [
            target.node_pool(
                naming.pool(pool.name),
                NodePoolArgs(
                    plan=plan,
                    pool=pool,
                    hosts=hosts,
                    consul_seed=self._consul.seed,
                    nomad_token=self._nomad.token,
                    operator_secrets=secrets,
                    authority=authority,
                    servers=[*self._consul.ready, *self._nomad.servers],
                    clusters_ready=[*self._consul.ready, *self._nomad.ready],
                ),
                opts=self.child_options(protect=target.protect),
            )
            for pool in plan.pools
        ]
        workloads = self._workload_options([gate for pool in pools for gate in pool.ready])
        gateway = Gateway("gateway", GatewayArgs(plan=plan, authority=authority), opts=workloads)
        if plan.gateway.certificate:
            hosts.programs.run(
                certificate_gate(plan),
                "certificate-shown",
                self,
                on=asked_from(plan),
                depends_on=gateway.jobs,
            )
        Monitoring("monitoring", MonitoringArgs(plan=plan, authority=authority), opts=workloads)
        Autoscaler("autoscaler", AutoscalerArgs(plan=plan, authority=authority), opts=workloads)
        if plan.snapshots:
            snapshots = SnapshotsArgs(plan=plan, snapshots=plan.snapshots, authority=authority)
            Snapshots("snapshots", snapshots, opts=workloads)
        scheduler = target.scheduler(plan=plan, programs=hosts.programs, gate_secrets=secrets)
        routes = [
            ModelService(
                naming.model(model.name),
                ModelServiceArgs(
                    model=model,
                    pool=plan.pool(model.pool),
                    scheduler=scheduler,
                    discovery=target.discovery,
                ),
                opts=workloads,
            ).route
            for model in plan.models
        ]
        hosts.programs.run(
            routes_gate(plan, secrets=secrets),
            "routes-acknowledged",
            self,
            depends_on=[*gateway.jobs, *routes],
        )
        self.register_outputs({"gateway": clients.url})

    def _workload_options(self, gates: list[pulumi.Resource]) -> pulumi.ResourceOptions:
        waiting = self.child_options(
            depends_on=[*self._consul.ready, *self._nomad.ready, *gates],
        )
        return pulumi.ResourceOptions(
            parent=self,
            providers=[
                nomad.Provider(
                    "nomad",
                    address=self._nomad.address,
                    secret_id=self._nomad.token,
                    opts=waiting,
                ),
                consul.Provider(
                    "consul",
                    address=self._consul.address,
                    token=self._consul.token,
                    opts=waiting,
                ),
            ],
        )
