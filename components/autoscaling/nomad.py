"""The Nomad Autoscaler as a Nomad job."""

from __future__ import annotations

import json

from components.autoscaling.proxy import (
    AUTOSCALER,
    HEALTH_PATH,
    METRICS_PATH,
    PASSWORD_HEADER,
    PROMETHEUS,
    SERVED,
    proxy_task,
    query_url,
)
from components.certificates.task import AUTHORITY, CERTIFICATE, KEY, certificate_files, password
from components.envoy.sidecar import port
from components.nomad import runtime
from components.nomad.addresses import in_arguments, on_loopback
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
COUNTS_TASK = "counts"

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
            ports={SERVED: autoscaling.autoscaler.port, AUTOSCALER: None, PROMETHEUS: None},
            services=(
                Service(
                    name="nomad-autoscaler",
                    port=SERVED,
                    tags=("metrics",),
                    meta={
                        "metrics_path": METRICS_PATH,
                        "metrics_scheme": "https",
                        # Without it the autoscaler answers in JSON.
                        "metrics_format": "prometheus",
                    },
                    checks=(
                        HttpCheck(path=HEALTH_PATH, port=SERVED, protocol="https"),
                        _policies_check(plan),
                    ),
                ),
            ),
            tasks=(
                proxy_task(plan, JOB_ID),
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
                            templates=(port(AUTOSCALER), port(PROMETHEUS), password(JOB_ID)),
                            change_mode="restart",
                        ),
                    ),
                    env=_way_to_nomad(plan),
                    nomad_identity=True,
                    cpu_mhz=50,
                    memory_mb=128,
                ),
                *_counts_task(plan),
            ),
        ),
    )


def _way_to_nomad(plan: PlatformPlan) -> dict[str, str]:
    """The agent, its check and the task beside it read how to reach Nomad from the environment.
    Their own node's agent asks whichever server lives."""
    return {
        "NOMAD_ADDR": in_arguments(plan.nomad.at(plan.autoscaling.autoscaler.host)).url,
        "NOMAD_CACERT": AUTHORITY,
        "NOMAD_CLIENT_CERT": CERTIFICATE,
        "NOMAD_CLIENT_KEY": KEY,
    }


def _counts_task(plan: PlatformPlan) -> tuple[Task, ...]:
    """Where a model has groups: what mends a count that has left halves of two."""
    if all(model.replica.nodes == 1 for model in plan.models):
        return ()
    program = plan.node_agent
    task = Task(
        name=COUNTS_TASK,
        command=runtime.python(program.environment),
        args=(runtime.program(program.bundle, "members_beyond.py"),),
        files=certificate_files(JOB_ID, change_mode="restart"),
        env=_way_to_nomad(plan),
        nomad_identity=True,
        cpu_mhz=20,
        memory_mb=64,
    )
    return (task,)


def _policies_check(plan: PlatformPlan) -> ScriptCheck:
    """Restarts an autoscaler that has lost its policies but still reports itself healthy."""
    program = plan.node_agent
    address = f"{on_loopback(plan.autoscaling.autoscaler)}:${{NOMAD_PORT_{AUTOSCALER}}}"
    metrics = f"http://{address}{METRICS_PATH}?format=prometheus"
    return ScriptCheck(
        name="policies",
        task=TASK,
        command=runtime.python(program.environment),
        args=(runtime.program(program.bundle, "scaling_policies.py"), metrics),
        interval_s=5,
        timeout_s=25,  # its two requests may take ten each
        # Nomad knows a new model's policy a moment before the autoscaler does.
        restart=CheckRestart(after_failures=3, grace_s=10),
    )


def agent_config(plan: PlatformPlan) -> str:
    """The agent's JSON configuration.

    JSON, because its HCL parser refuses two arguments in a one-line block.
    """
    autoscaling = plan.autoscaling
    config = {
        "log_json": True,
        "log_level": "INFO",
        # Behind its proxy, as Prometheus is for it.
        "http": {
            "bind_address": on_loopback(autoscaling.autoscaler),
            "bind_port": port(AUTOSCALER),
        },
        "policy": {"default_evaluation_interval": f"{autoscaling.evaluation_interval_s}s"},
        "telemetry": {"prometheus_metrics": True, "disable_hostname": True},
        "apm": {
            "prometheus": {
                "driver": "prometheus",
                "config": {
                    "address": query_url(plan),
                    f"header_{PASSWORD_HEADER}": password(JOB_ID),
                },
            }
        },
        "strategy": {"pass-through": {"driver": "pass-through"}},
        "target": {"nomad": {"driver": "nomad-target"}},
    }
    return json.dumps(config, indent=2, sort_keys=True) + "\n"
