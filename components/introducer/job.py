"""The introducer as a Nomad job, whose workload identity may write nodes and what they say of
themselves. Pure."""

from __future__ import annotations

import json

from components.aws_pool.names import role_name, sts_url
from components.certificates.task import AUTHORITY, certificate_files
from components.nomad import runtime
from components.nomad.addresses import IN_FILES, in_arguments
from components.nomad.jobspec import File, Group, HttpCheck, Job, Service, Task
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan

JOB_ID = "introducer"
SCHEMA_VERSION = 1  # schemas/introducer.schema.json
# A node starts its agents within it. Nomad signs for half an hour at most.
INTRODUCTION_TTL_S = 900
FILE = "local/introducer.json"
PORT = "https"

# The permissions of its workload identity: sign introductions, drain nodes and forget them, and
# write down what they say (services/aws/introducer/requests.py).
POLICY_RULES = """\
node {
  policy = "write"
}

namespace "default" {
  variables {
    path "slipway/nodes/*" {
      capabilities = ["read", "write", "destroy"]
    }
  }
}
"""


def introducer_job(plan: PlatformPlan, aws: AwsPlan) -> Job:
    """One on each host of the gateway's pool: a new node asks any of them."""
    (port,) = {each.port for each in aws.introducers}
    python = runtime.python(plan.node_agent.environment)
    return Job(
        id=JOB_ID,
        datacenter=plan.datacenter,
        node_pool=plan.monitoring.pool,
        address="",
        group=Group(
            name="introducer",
            count=len(aws.introducers),
            ports={PORT: port},
            services=(
                Service(
                    name="introducer",
                    port=PORT,
                    checks=(HttpCheck(path="/healthz", port=PORT, protocol="https"),),
                ),
            ),
            tasks=(
                Task(
                    name="introducer",
                    command=python,
                    args=(runtime.program(aws.bundle, "introduce.py"), FILE),
                    env={
                        "NOMAD_ADDR": in_arguments(plan.nomad.at("")).url,
                        "NOMAD_CACERT": AUTHORITY,
                    },
                    files=(
                        *certificate_files(JOB_ID, change_mode="restart"),
                        File(
                            path=FILE,
                            content=_document(plan, aws, port),
                            templates=(IN_FILES,),
                            change_mode="restart",
                        ),
                    ),
                    nomad_identity=True,
                    cpu_mhz=100,
                    memory_mb=96,
                ),
            ),
        ),
    )


def _document(plan: PlatformPlan, aws: AwsPlan, port: int) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "listen": {"address": IN_FILES, "port": port},
        "environment": plan.environment,
        "region": aws.region,
        "sts": sts_url(aws),
        "pools": {role_name(plan.environment, pool): pool for pool in sorted(aws.pools)},
        "ttl_s": INTRODUCTION_TTL_S,
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
