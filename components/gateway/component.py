"""Gateway: the one address clients know."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad

from components.base import SlipwayComponent
from components.gateway.jobs import envoy_job, xds_job
from components.nomad.jobspec import to_json
from slipway.plan.platform import PlatformPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayArgs:
    plan: PlatformPlan


class Gateway(SlipwayComponent):
    """Envoy and the control plane that configures it, as two jobs.

    Owns both jobs; the routing table belongs to the models. Envoy keeps its last configuration
    while the control plane is away. Replacing the Envoy job closes the listener for its start time.
    """

    def __init__(
        self, name: str, args: GatewayArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        gateway = args.plan.gateway
        super().__init__("Gateway", name, {"address": gateway.address, "port": gateway.port}, opts)
        for job in (xds_job(args.plan), envoy_job(args.plan)):
            nomad.Job(
                job.id,
                jobspec=to_json(job),
                json=True,
                opts=self.child_options(),
            )
        self.register_outputs({"http": f"http://{gateway.address}:{gateway.port}"})
