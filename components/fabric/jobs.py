"""The jobs that check hosts, and the job that judges and says who takes members."""

from __future__ import annotations

from components.certificates.task import AUTHORITY, certificate_files
from components.fabric.document import check_of, job_id, pools_document
from components.nomad import runtime
from components.nomad.addresses import IN_ARGUMENTS, LOOPBACK, in_arguments
from components.nomad.jobspec import Group, Job, Service, Task
from slipway.plan.platform import PlatformPlan, Pool

JOB_ID = "fabric-admission"

# The permissions of the workload identities. A host may only read what Nomad knows of nodes: it
# does not say itself that it takes members.
CHECK_RULES = """\
node {
  policy = "read"
}
"""
ADMISSION_RULES = """\
namespace "default" {
  capabilities = ["list-jobs", "read-job", "read-fs"]
}

node {
  policy = "write"
}
"""

# Of a host, beside a member that is planned for all of it (components/serving/members.py).
CHECK_CPU_MHZ, CHECK_MEMORY_MB = 10, 32


def pools_with_groups(plan: PlatformPlan) -> list[Pool]:
    return [pool for pool in plan.pools if pool.fabric_check is not None]


def check_job(plan: PlatformPlan, pool: Pool) -> Job:
    """On each host of the pool. It runs as the agent's user, with the agent's limits, as members
    do."""
    agent = LOOPBACK if pool.range is not None else IN_ARGUMENTS
    return Job(
        id=job_id(pool.name),
        datacenter=plan.datacenter,
        node_pool=pool.name,
        on_every_node=True,
        group=Group(
            name="check",
            count=1,
            ports={"fabric": None},
            tasks=(
                Task(
                    name="check",
                    command=runtime.python(plan.node_agent.environment),
                    args=(_program(pool, "check_host.py"),),
                    env={
                        "NOMAD_ADDR": plan.nomad.at(agent).url,
                        "SLIPWAY_ADDRESS": IN_ARGUMENTS,
                        "SLIPWAY_CERTIFICATE": "${meta.certificate}",
                        "SLIPWAY_DOCUMENT": pools_document([pool]),
                        "SLIPWAY_PORT": "${NOMAD_PORT_fabric}",
                    },
                    nomad_identity=True,
                    cpu_mhz=CHECK_CPU_MHZ,
                    memory_mb=CHECK_MEMORY_MB,
                ),
            ),
        ),
    )


def admission_job(plan: PlatformPlan) -> Job:
    """One for the whole environment, beside Prometheus. It asks the agent of its own node, which
    asks whichever server lives."""
    pools, place = pools_with_groups(plan), plan.autoscaling.autoscaler
    own = in_arguments(place)
    return Job(
        id=JOB_ID,
        datacenter=plan.datacenter,
        node_pool=plan.autoscaling.pool,
        address=place.host,
        group=Group(
            name="admission",
            count=1,
            ports={"metrics": None},
            services=(
                Service(
                    name=JOB_ID,
                    port="metrics",
                    tags=("metrics",),
                    meta={"metrics_path": "/metrics", "metrics_scheme": "https"},
                ),
            ),
            tasks=(
                Task(
                    name="admission",
                    command=runtime.python(plan.node_agent.environment),
                    args=(_program(pools[0], "keep_admissions.py"),),
                    env={
                        "NOMAD_ADDR": in_arguments(plan.nomad.at(place.host)).url,
                        "NOMAD_CACERT": AUTHORITY,
                        "SLIPWAY_ADDRESS": own.host,
                        "SLIPWAY_DOCUMENT": pools_document(pools),
                        "SLIPWAY_PORT": "${NOMAD_PORT_metrics}",
                        "SLIPWAY_READER": plan.peers.prometheus,
                    },
                    files=certificate_files(JOB_ID, change_mode="restart"),
                    nomad_identity=True,
                    cpu_mhz=50,
                    memory_mb=64,
                ),
            ),
        ),
    )


def _program(pool: Pool, name: str) -> str:
    return runtime.program(check_of(pool).bundle, name)
