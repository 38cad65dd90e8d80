"""The platform job that moves what runs on unhealthy devices."""

from __future__ import annotations

from components.certificates.task import AUTHORITY, certificate_files
from components.nomad import runtime
from components.nomad.addresses import in_arguments
from components.nomad.jobspec import Group, Job, Task
from slipway.plan.platform import DevicePluginPlan, PlatformPlan

JOB_ID = "device-evacuation"

# The permissions of its workload identity: see nodes and allocations, and stop allocations.
POLICY_RULES = """\
namespace "default" {
  capabilities = ["read-job", "alloc-lifecycle"]
}

node {
  policy = "read"
}
"""


def evacuation_job(plan: PlatformPlan, plugin: DevicePluginPlan) -> Job:
    """One for the whole environment, in the gateway's pool. It asks the agent of its own node,
    which asks whichever server lives."""
    autoscaler = plan.autoscaling.autoscaler
    return Job(
        id=JOB_ID,
        datacenter=plan.datacenter,
        node_pool=plan.autoscaling.pool,
        address=autoscaler.host,
        group=Group(
            name="evacuation",
            count=1,
            ports={},
            tasks=(
                Task(
                    name="evacuation",
                    command=runtime.python(plan.node_agent.environment),
                    args=(runtime.program(plugin.bundle, "evacuate.py"),),
                    env={
                        "CONSUL_HTTP_ADDR": in_arguments(plan.consul.at(autoscaler.host)).url,
                        "NOMAD_ADDR": in_arguments(plan.nomad.at(autoscaler.host)).url,
                        "NOMAD_CACERT": AUTHORITY,
                    },
                    files=certificate_files(JOB_ID, change_mode="restart"),
                    consul_identity=True,
                    nomad_identity=True,
                    cpu_mhz=50,
                    memory_mb=64,
                ),
            ),
        ),
    )
