"""aws: instances of Amazon's cloud. Fixed hosts are reached over SSH, as those of `metal`."""

from __future__ import annotations

import dataclasses

import pulumi
import pulumi_aws as aws

from components.aws_hosts.component import AwsHosts, AwsHostsArgs
from components.aws_load_balancer.component import AwsLoadBalancer, AwsLoadBalancerArgs
from components.aws_network.component import AwsNetwork, AwsNetworkArgs
from components.aws_pools.component import AwsPools
from components.base import SlipwayComponent
from components.hosts.realisation import HostRealisation
from components.hosts.ssh import SshHosts
from components.hosts.supervision import Systemd
from components.joining.introduction import Introduction
from components.node_pool.component import NodePool
from components.serving.consul import ConsulDiscovery
from components.serving.nomad import NomadScheduler
from slipway.plan.platform import PlatformPlan
from stacks.platform import Target


def hosts(plan: PlatformPlan, platform: SlipwayComponent) -> HostRealisation:
    """Raises RunError where the environment can only be planned."""
    planned = plan.aws
    if planned is None:
        raise pulumi.RunError(
            f"Pulumi.{plan.environment}.yaml: slipway:aws is missing: it says where the machines"
            " are"
        )
    provider = aws.Provider(
        "aws",
        region=planned.region,
        default_tags=aws.ProviderDefaultTagsArgs(
            tags={**planned.tags, "slipway:environment": plan.environment}
        ),
        opts=platform.child_options(),
    )
    in_aws = pulumi.ResourceOptions(parent=platform, providers=[provider], protect=True)
    network = AwsNetwork("network", AwsNetworkArgs(plan=plan, aws=planned), opts=in_aws)
    machines = AwsHosts("hosts", AwsHostsArgs(plan=plan, aws=planned, network=network), opts=in_aws)
    if planned.load_balancer:
        AwsLoadBalancer(
            "load-balancer",
            AwsLoadBalancerArgs(
                environment=plan.environment,
                planned=planned.load_balancer,
                zones=planned.zones,
                network=network,
            ),
            opts=in_aws,
        )
    known = HostRealisation(
        programs=SshHosts(plan, machines=machines.reachable),
        supervision=Systemd(),
        joining=Introduction(plan),
        changed_at_once=0.1,
    )
    elastic = AwsPools(plan=plan, aws=planned, hosts=known, network=network, in_aws=in_aws)
    return dataclasses.replace(known, elastic=elastic)


TARGET = Target(
    hosts=hosts,
    node_pool=NodePool,
    scheduler=NomadScheduler,
    discovery=ConsulDiscovery(),
    protect=True,
)
