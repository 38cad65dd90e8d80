"""The Nomad Autoscaler as a Nomad job."""

from __future__ import annotations

import json

from components.nomad.jobspec import File, Group, HttpCheck, Job, Service, Task
from slipway.plan.platform import PlatformPlan

JOB_ID = "nomad-autoscaler"

# What its workload identity may do: read jobs and scale them.
POLICY_RULES = """\
namespace "default" {
  policy       = "scale"
  capabilities = ["list-jobs", "read-job", "read-job-scaling", "scale-job"]
}
"""


def autoscaler_job(plan: PlatformPlan) -> Job:
    autoscaling = plan.autoscaling
    return Job(
        id=JOB_ID,
        datacenter=plan.datacenter,
        node_pool=autoscaling.pool,
        group=Group(
            name="autoscaler",
            count=1,
            ports={"http": autoscaling.port},
            services=(
                Service(
                    name="nomad-autoscaler",
                    port="http",
                    tags=("metrics",),
                    # Without the format it answers JSON.
                    meta={"metrics_path": "/v1/metrics", "metrics_format": "prometheus"},
                    checks=(HttpCheck(path="/v1/health", port="http"),),
                ),
            ),
            tasks=(
                Task(
                    name="autoscaler",
                    command="${meta.runtime}/tools/bin/"
                    f"nomad-autoscaler-{plan.tools['nomad-autoscaler']}/nomad-autoscaler",
                    args=("agent", "-config", "local/autoscaler.json"),
                    files=(File(path="local/autoscaler.json", content=agent_config(plan)),),
                    # The agent reads its Nomad address and token from the environment.
                    env={"NOMAD_ADDR": f"http://{plan.servers[0].address}:4646"},
                    nomad_identity=True,
                    cpu_mhz=50,
                    memory_mb=128,
                ),
            ),
        ),
    )


def agent_config(plan: PlatformPlan) -> str:
    """The agent's JSON configuration.

    JSON because its HCL reader refuses two arguments in a one-line block.
    """
    autoscaling, monitoring = plan.autoscaling, plan.monitoring
    config = {
        "log_json": True,
        "log_level": "INFO",
        "http": {"bind_address": autoscaling.address, "bind_port": autoscaling.port},
        "policy": {"default_evaluation_interval": f"{autoscaling.evaluation_interval_s}s"},
        "telemetry": {"prometheus_metrics": True, "disable_hostname": True},
        "apm": {
            "prometheus": {
                "driver": "prometheus",
                "config": {"address": f"http://{monitoring.address}:{monitoring.port}"},
            }
        },
        "strategy": {"pass-through": {"driver": "pass-through"}},
        "target": {"nomad": {"driver": "nomad-target"}},
    }
    return json.dumps(config, indent=2, sort_keys=True) + "\n"
