"""PlatformPlan -> components: the only file that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from components.devices.component import DeviceEvacuation, DeviceEvacuationArgs
from components.fabric.component import FabricChecks, FabricChecksArgs
from components.fabric.jobs import pools_with_groups
from components.gateway.certificate_gate import asked_from
from components.gateway.component import Gateway, GatewayArgs, certificate_gate, routes_gate
from components.hosts.program import Hosts
from components.hosts.realisation import HostRealisation
from components.metrics.component import Monitoring, MonitoringArgs
from components.node_pool.component import NodePool, NodePoolArgs
from components.node_pool.elastic import ElasticPoolsArgs
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
from slipway.plan.platform import PlatformPlan, Pool


class SchedulerOf(Protocol):
    """Makes the scheduler of one environment. Its gates query the clusters with `gate_secrets`."""

    def __call__(
        self, *, plan: PlatformPlan, programs: Hosts, gate_secrets: pulumi.Output[str]
    ) -> Scheduler: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The realisations from which a target's environments are built."""

    # Of one environment. What it creates becomes a child of the platform.
    hosts: Callable[[PlatformPlan, SlipwayComponent], HostRealisation]
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
        self._plan, self._target, self._hosts = plan, target, target.hosts(plan, self)
        self._protected = self.child_options(protect=target.protect)
        self._authority = CertificateAuthority(
            "authority",
            CertificateAuthorityArgs(plan=plan, hosts=self._hosts, own=own_authorities),
            opts=self._protected,
        )
        self._consul, self._nomad = self._clusters()
        self._gate_secrets = gate_secrets(self._nomad.token, self._consul.token)
        known = [pool for pool in plan.pools if pool.hosts or self._hosts.elastic is None]
        gates = [gate for pool in known for gate in self._pool(pool).ready]
        workloads = self._workload_options(gates)
        self._elastic = self._elastic_pools(workloads)
        gateway_jobs = self._gateway(workloads)
        self._observation(workloads)
        routes = self._models(workloads)
        acknowledged = self._hosts.programs.run(
            routes_gate(plan, secrets=self._gate_secrets),
            "routes-acknowledged",
            self,
            depends_on=[*gateway_jobs, *routes],
        )
        if self._hosts.elastic is not None:
            self._hosts.elastic.settle([acknowledged])
        self.register_outputs({"gateway": plan.gateway.clients.url})

    @property
    def gateway(self) -> dict[str, str]:
        """Where clients reach the models."""
        clients = self._plan.gateway.clients
        name = {"server_name": clients.server_name} if clients.server_name else {}
        return {"http": clients.url, "grpc": clients.authority, **name}

    def _clusters(self) -> tuple[ConsulCluster, NomadCluster]:
        """The servers. A host's agents of both share its certificate."""
        plan = self._plan
        certificates = {
            server.name: self._authority.issue(identities.server(plan, server))
            for server in plan.servers
        }
        consul_cluster = ConsulCluster(
            "consul",
            ConsulClusterArgs(
                plan=plan,
                hosts=self._hosts,
                certificates=certificates,
                operator=self._authority.operator,
            ),
            opts=self._protected,
        )
        nomad_cluster = NomadCluster(
            "nomad",
            NomadClusterArgs(
                plan=plan,
                hosts=self._hosts,
                consul_address=consul_cluster.address,
                consul_seed=consul_cluster.seed,
                consul_token=consul_cluster.token,
                consul_ready=consul_cluster.ready,
                certificates=certificates,
                authority=self._authority.pem,
            ),
            opts=self._protected,
        )
        return consul_cluster, nomad_cluster

    def _pool(self, pool: Pool) -> NodePool:
        return self._target.node_pool(
            naming.pool(pool.name),
            NodePoolArgs(
                plan=self._plan,
                pool=pool,
                hosts=self._hosts,
                consul_seed=self._consul.seed,
                nomad_token=self._nomad.token,
                operator_secrets=self._gate_secrets,
                authority=self._authority,
                servers=[*self._consul.ready, *self._nomad.servers],
                clusters_ready=[*self._consul.ready, *self._nomad.ready],
            ),
            opts=self._protected,
        )

    def _elastic_pools(
        self, workloads: pulumi.ResourceOptions
    ) -> Mapping[str, list[pulumi.Resource]]:
        """What the jobs of each pool wait for whose nodes join by themselves. They come after the
        hosts that are known, because some job there lets them in."""
        if self._hosts.elastic is None:
            return {}
        return self._hosts.elastic.create(
            ElasticPoolsArgs(
                plan=self._plan,
                authority=self._authority,
                consul_seed=self._consul.seed,
                nomad_token=self._nomad.token,
                workloads=workloads,
                clusters_ready=[*self._consul.ready, *self._nomad.ready],
            )
        )

    def _gateway(self, workloads: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        """Its jobs, and the gate of the certificate that clients are shown."""
        plan = self._plan
        args = GatewayArgs(
            plan=plan,
            authority=self._authority,
            programs=self._hosts.programs,
            gate_secrets=self._gate_secrets,
        )
        gateway = Gateway("gateway", args, opts=workloads)
        if plan.gateway.certificate:
            self._hosts.programs.run(
                certificate_gate(plan),
                "certificate-shown",
                self,
                on=asked_from(plan),
                depends_on=gateway.jobs,
            )
        return gateway.jobs

    def _observation(self, workloads: pulumi.ResourceOptions) -> None:
        """Prometheus, the autoscaler, the snapshots, and what watches over devices and fabrics."""
        plan, authority = self._plan, self._authority
        Monitoring("monitoring", MonitoringArgs(plan=plan, authority=authority), opts=workloads)
        Autoscaler("autoscaler", AutoscalerArgs(plan=plan, authority=authority), opts=workloads)
        if plan.snapshots:
            snapshots = SnapshotsArgs(plan=plan, snapshots=plan.snapshots, authority=authority)
            Snapshots("snapshots", snapshots, opts=workloads)
        if plan.device_plugin:
            evacuation = DeviceEvacuationArgs(
                plan=plan, plugin=plan.device_plugin, authority=authority
            )
            DeviceEvacuation("device-evacuation", evacuation, opts=workloads)
        if pools_with_groups(plan):
            checks = FabricChecksArgs(plan=plan, authority=authority)
            FabricChecks("fabric-checks", checks, opts=workloads)

    def _models(self, workloads: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Their routes, each after its model's replicas answer."""
        scheduler = self._target.scheduler(
            plan=self._plan, programs=self._hosts.programs, gate_secrets=self._gate_secrets
        )
        return [
            ModelService(
                naming.model(model.name),
                ModelServiceArgs(
                    model=model,
                    pool=self._plan.pool(model.pool),
                    scheduler=scheduler,
                    discovery=self._target.discovery,
                    after=self._elastic.get(model.pool, ()),
                ),
                opts=workloads,
            ).route
            for model in self._plan.models
        ]

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
