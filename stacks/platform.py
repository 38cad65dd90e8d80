"""PlatformPlan -> components: the only file that knows them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_consul as consul
import pulumi_nomad as nomad

from components import naming
from components.autoscaling.component import Autoscaler, AutoscalerArgs
from components.base import SlipwayComponent
from components.consul.component import ConsulCluster, ConsulClusterArgs
from components.gateway.component import Gateway, GatewayArgs
from components.metrics.component import Monitoring, MonitoringArgs
from components.node_pool.component import NodePool, NodePoolArgs
from components.nomad.component import NomadCluster, NomadClusterArgs
from components.serving.component import ModelService, ModelServiceArgs, gate_secrets
from slipway.plan.facts import FACTS_VERSION
from slipway.plan.platform import ModelPlan, PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The realisations a kind of environment is built from."""

    node_pool: type[NodePool]


class Platform(SlipwayComponent):
    """The whole platform of one environment: the root of its resource tree.

    Clusters come first, then the pools' nodes, then everything that Nomad runs: the two providers
    of the workloads wait for the gates, and every workload uses them.
    """

    def __init__(
        self,
        name: str,
        plan: PlatformPlan,
        target: Target,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Platform", name, _facts(plan), opts)
        self.gateway_grpc = f"{plan.gateway.address}:{plan.gateway.port}"
        self.gateway_http = f"http://{self.gateway_grpc}"
        self._plan = plan

        self._consul = ConsulCluster(
            "consul", ConsulClusterArgs(plan=plan), opts=self.child_options()
        )
        self._nomad = NomadCluster(
            "nomad",
            NomadClusterArgs(
                plan=plan,
                consul_address=self._consul.address,
                consul_seed=self._consul.seed,
                consul_token=self._consul.token,
                consul_ready=self._consul.ready,
            ),
            opts=self.child_options(),
        )
        pools = [
            target.node_pool(
                naming.pool(pool.name),
                NodePoolArgs(
                    plan=plan,
                    pool=pool,
                    consul_seed=self._consul.seed,
                    nomad_token=self._nomad.token,
                    clusters_ready=[*self._consul.ready, *self._nomad.ready],
                ),
                opts=self.child_options(),
            )
            for pool in plan.pools
        ]
        workloads = self._workload_options([gate for pool in pools for gate in pool.ready])
        Gateway("gateway", GatewayArgs(plan=plan), opts=workloads)
        Monitoring("monitoring", MonitoringArgs(plan=plan), opts=workloads)
        Autoscaler("autoscaler", AutoscalerArgs(plan=plan), opts=workloads)
        self._gate_secrets = gate_secrets(self._nomad.token, self._consul.token)
        for model in plan.models:
            ModelService(naming.model(model.name), self._model_args(model), opts=workloads)
        self.register_outputs({"gateway": self.gateway_http})

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

    def _model_args(self, model: ModelPlan) -> ModelServiceArgs:
        return ModelServiceArgs(
            model=model,
            autoscaling=self._plan.autoscaling,
            datacenter=self._plan.datacenter,
            node_bundle=self._plan.node_agent.bundle,
            nomad_address=self._nomad.address,
            consul_address=self._consul.address,
            gate_secrets=self._gate_secrets,
        )


def _facts(plan: PlatformPlan) -> Mapping[str, Any]:
    """What policies read at preview (schemas/facts.schema.json)."""
    return {
        "schema_version": FACTS_VERSION,
        "environment": plan.environment,
        "target": plan.target,
        "servers": len(plan.servers),
        "pools": {pool.name: len(pool.nodes) for pool in plan.pools},
        "models": sorted(model.name for model in plan.models),
        "tools": dict(plan.tools),
    }
