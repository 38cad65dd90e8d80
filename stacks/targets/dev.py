"""dev: the whole platform as processes on this machine."""

from __future__ import annotations

from components.base import SlipwayComponent
from components.hosts.local import LocalHosts
from components.hosts.realisation import HostRealisation
from components.hosts.supervision import Supervisord
from components.joining.tokens import HostTokens
from components.node_pool.component import NodePool
from components.serving.consul import ConsulDiscovery
from components.serving.nomad import NomadScheduler
from slipway.plan.platform import PlatformPlan
from stacks.platform import Target


def hosts(_plan: PlatformPlan, _platform: SlipwayComponent) -> HostRealisation:
    return HostRealisation(
        programs=LocalHosts(),
        supervision=Supervisord(),
        joining=HostTokens(),
        changed_at_once=1.0,
    )


TARGET = Target(
    hosts=hosts,
    node_pool=NodePool,
    scheduler=NomadScheduler,
    discovery=ConsulDiscovery(),
    protect=False,  # `slipway down` ends everything in seconds
)
