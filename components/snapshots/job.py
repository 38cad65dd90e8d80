"""The periodic job that takes snapshots of Consul's and Nomad's states."""

from __future__ import annotations

from components.certificates.task import AUTHORITY, certificate_files
from components.nomad import runtime
from components.nomad.addresses import in_arguments
from components.nomad.jobspec import Group, Job, Restart, Task
from slipway.plan.platform import PlatformPlan, SnapshotPlan

JOB_ID = "snapshots"
SNAPSHOT_FOLDER = "${meta.snapshots}"

# The permissions of its workload identity in Nomad.
POLICY_RULES = """\
operator {
  capabilities = ["snapshot-save"]
}
"""


def snapshot_job(plan: PlatformPlan, snapshots: SnapshotPlan) -> Job:
    """Runs on one host, which keeps the files. That host is not a server, because the files must
    outlive the servers."""
    program = plan.node_agent
    return Job(
        id=JOB_ID,
        datacenter=plan.datacenter,
        node_pool=snapshots.pool,
        address=snapshots.address,
        schedule=f"0 */{snapshots.every_h} * * *",
        group=Group(
            name="snapshot",
            count=1,
            ports={},
            restart=Restart(attempts=2, interval_s=600, delay_s=60),
            tasks=(
                Task(
                    name="snapshot",
                    command=runtime.python(program.environment),
                    args=(
                        runtime.program(program.bundle, "take_snapshot.py"),
                        *("--folder", SNAPSHOT_FOLDER),
                        *("--keep", str(snapshots.keep)),
                    ),
                    env={
                        "CONSUL_HTTP_ADDR": in_arguments(plan.consul.at(snapshots.address)).url,
                        "NOMAD_ADDR": in_arguments(plan.nomad.at(snapshots.address)).url,
                        "NOMAD_CACERT": AUTHORITY,
                    },
                    files=certificate_files(JOB_ID, change_mode="noop"),
                    consul_identity=True,
                    nomad_identity=True,
                    cpu_mhz=50,
                    memory_mb=128,
                ),
            ),
        ),
    )
