"""The Nomad Autoscaler as a Nomad job."""

from __future__ import annotations

import json

from components.certificates.task import AUTHORITY, CERTIFICATE, KEY, certificate_files
from components.nomad.addresses import IN_FILES, in_arguments, in_files
from components.nomad.jobspec import (
    CheckRestart,
    File,
    Group,
    HttpCheck,
    Job,
    ScriptCheck,
    Service,
    Task,
)
from slipway.plan.platform import PlatformPlan

JOB_ID = "nomad-autoscaler"
TASK = "autoscaler"
METRICS_PATH = "/v1/metrics"

# The permissions of its workload identity: read jobs and scale them.
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
        address=autoscaling.autoscaler.host,
        group=Group(
            name="autoscaler",
            count=1,
            ports={"http": autoscaling.autoscaler.port},
            services=(
                Service(
                    name="nomad-autoscaler",
                    port="http",
                    tags=("metrics",),
                    # Without the format parameter it answers in JSON.
                    meta={"metrics_path": METRICS_PATH, "metrics_format": "prometheus"},
                    checks=(HttpCheck(path="/v1/health", port="http"), _policies_check(plan)),
                ),
            ),
            tasks=(
                Task(
                    name=TASK,
                    command="${meta.runtime}/tools/bin/"
                    f"nomad-autoscaler-{plan.tools['nomad-autoscaler']}/nomad-autoscaler",
                    args=("agent", "-config", "local/autoscaler.json"),
                    files=(
                        *certificate_files(JOB_ID, change_mode="restart"),
                        File(
                            path="local/autoscaler.json",
                            content=agent_config(plan),
                            templates=(IN_FILES,),
                        ),
                    ),
                    # The agent and the check read how to reach Nomad from the environment.
                    env={
                        "NOMAD_ADDR": in_arguments(plan.nomad).url,
                        "NOMAD_CACERT": AUTHORITY,
                        "NOMAD_CLIENT_CERT": CERTIFICATE,
                        "NOMAD_CLIENT_KEY": KEY,
                    },
                    nomad_identity=True,
                    cpu_mhz=50,
                    memory_mb=128,
                ),
            ),
        ),
    )


def _policies_check(plan: PlatformPlan) -> ScriptCheck:
    """Restarts an autoscaler that has lost its policies but still reports itself healthy."""
    autoscaling, program = plan.autoscaling, plan.node_agent
    metrics = f"{in_arguments(autoscaling.autoscaler).url}{METRICS_PATH}?format=prometheus"
    return ScriptCheck(
        name="policies",
        task=TASK,
        command=f"${{meta.runtime}}/envs/{program.environment}/bin/python",
        args=(f"${{meta.runtime}}/bundles/{program.bundle}/scaling_policies.py", metrics),
        interval_s=5,
        timeout_s=25,  # its two requests may take ten each
        # Nomad knows a new model's policy a moment before the autoscaler does.
        restart=CheckRestart(after_failures=3, grace_s=10),
    )


def agent_config(plan: PlatformPlan) -> str:
    """The agent's JSON configuration.

    JSON, because its HCL parser refuses two arguments in a one-line block.
    """
    autoscaling, monitoring = plan.autoscaling, plan.monitoring
    config = {
        "log_json": True,
        "log_level": "INFO",
        "http": {
            "bind_address": in_files(autoscaling.autoscaler).host,
            "bind_port": autoscaling.autoscaler.port,
        },
        "policy": {"default_evaluation_interval": f"{autoscaling.evaluation_interval_s}s"},
        "telemetry": {"prometheus_metrics": True, "disable_hostname": True},
        "apm": {
            "prometheus": {
                "driver": "prometheus",
                "config": {"address": in_files(monitoring.prometheus).url},
            }
        },
        "strategy": {"pass-through": {"driver": "pass-through"}},
        "target": {"nomad": {"driver": "nomad-target"}},
    }
    return json.dumps(config, indent=2, sort_keys=True) + "\n"
