"""The gateway as two Nomad jobs: upgrading the control plane does not restart Envoy."""

from __future__ import annotations

import json

from components.gateway.envoy_bootstrap import envoy_bootstrap
from components.nomad.jobspec import File, Group, HttpCheck, Job, Service, Task
from slipway.plan.platform import PlatformPlan

ENVOY_JOB_ID = "envoy"
XDS_JOB_ID = "xds"
CONSUL_PORT = 8500


def envoy_job(plan: PlatformPlan) -> Job:
    gateway = plan.gateway
    bootstrap = json.dumps(envoy_bootstrap(gateway), indent=2, sort_keys=True) + "\n"
    return Job(
        id=ENVOY_JOB_ID,
        datacenter=plan.datacenter,
        node_pool=gateway.pool,
        address=gateway.address,
        priority=80,
        group=Group(
            name="envoy",
            count=1,
            ports={"gateway": gateway.port, "admin": gateway.admin_port},
            shutdown_delay_s=2,
            services=(
                Service(
                    name="envoy",
                    port="gateway",
                    # /ready says nothing about the listener; /healthz is answered by it.
                    checks=(
                        HttpCheck(path="/ready", port="admin"),
                        HttpCheck(path="/healthz", port="gateway"),
                    ),
                ),
                Service(
                    name="envoy-admin",
                    port="admin",
                    tags=("metrics",),
                    meta={"metrics_path": "/stats/prometheus", "metrics_used_only": "true"},
                ),
            ),
            tasks=(
                Task(
                    name="envoy",
                    command=f"${{meta.runtime}}/tools/bin/envoy-{plan.tools['envoy']}/envoy",
                    args=(
                        "--config-path",
                        "local/envoy.json",
                        "--concurrency",
                        "2",
                        # Its socket names are the machine's: a second environment could not start.
                        "--disable-hot-restart",
                        # One filter writes five lines a message at this level.
                        "--component-log-level",
                        "misc:warning",
                    ),
                    files=(File(path="local/envoy.json", content=bootstrap),),
                    cpu_mhz=200,
                    memory_mb=256,
                ),
            ),
        ),
    )


def xds_job(plan: PlatformPlan) -> Job:
    gateway = plan.gateway
    return Job(
        id=XDS_JOB_ID,
        datacenter=plan.datacenter,
        node_pool=gateway.pool,
        address=gateway.address,
        priority=80,
        group=Group(
            name="xds",
            count=1,
            ports={"grpc": gateway.xds_port, "http": gateway.xds_metrics_port},
            services=(
                Service(
                    name="xds",
                    port="grpc",
                    checks=(HttpCheck(path="/healthz", port="http"),),
                ),
                Service(
                    name="xds-http",
                    port="http",
                    tags=("metrics",),
                    meta={"metrics_path": "/metrics"},
                ),
            ),
            tasks=(
                Task(
                    name="xds",
                    command=f"${{meta.runtime}}/envs/{gateway.xds_environment}/bin/python",
                    args=(
                        f"${{meta.runtime}}/bundles/{gateway.xds_bundle}/xds.py",
                        "--listen",
                        f"{gateway.address}:{gateway.xds_port}",
                        "--http",
                        f"{gateway.address}:{gateway.xds_metrics_port}",
                        "--gateway",
                        f"{gateway.address}:{gateway.port}",
                        "--consul",
                        f"http://{gateway.address}:{CONSUL_PORT}",
                    ),
                    consul_identity=True,
                    cpu_mhz=100,
                    memory_mb=128,
                ),
            ),
        ),
    )
