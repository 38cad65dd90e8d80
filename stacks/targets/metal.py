"""metal: hosts that people own, over SSH, each with systemd."""

from __future__ import annotations

from components.base import SlipwayComponent
from components.hosts.realisation import HostRealisation
from components.hosts.ssh import SshHosts, must_list_machines
from components.hosts.supervision import Systemd
from components.joining.introduction import Introduction
from components.node_pool.component import NodePool
from components.serving.consul import ConsulDiscovery
from components.serving.nomad import NomadScheduler
from slipway.plan.platform import PlatformPlan
from stacks.platform import Target


def hosts(plan: PlatformPlan, _platform: SlipwayComponent) -> HostRealisation:
    must_list_machines(plan)
    return HostRealisation(
        programs=SshHosts(plan),
        supervision=Systemd(),
        joining=Introduction(plan),
        changed_at_once=0.1,
    )


TARGET = Target(
    hosts=hosts,
    node_pool=NodePool,
    scheduler=NomadScheduler,
    discovery=ConsulDiscovery(),
    protect=True,
)
