"""The target of hosts over SSH, while it is being built: tests put it into stacks/targets of a
checkout. Replicas do not speak TLS to other hosts yet, so no checkout has it by itself."""

from __future__ import annotations

from components.consul.joining import HostTokens
from components.hosts.realisation import HostRealisation
from components.hosts.ssh import SshHosts
from components.node_pool.component import NodePool
from components.node_pool.supervision import Systemd
from components.serving.consul import ConsulDiscovery
from components.serving.nomad import NomadScheduler
from slipway.plan.platform import PlatformPlan
from stacks.platform import Target


def hosts(plan: PlatformPlan) -> HostRealisation:
    return HostRealisation(programs=SshHosts(plan), supervision=Systemd(), joining=HostTokens())


TARGET = Target(
    hosts=hosts,
    node_pool=NodePool,
    scheduler=NomadScheduler,
    discovery=ConsulDiscovery(),
)
