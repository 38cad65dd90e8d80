"""The gateway as two Nomad jobs: upgrading the control plane does not restart Envoy."""

from __future__ import annotations

import json

from components.autoscaling.policy import ENVOY_METRICS
from components.certificates.envoy_secrets import secret_files
from components.certificates.task import FOLDER, certificate_files
from components.gateway import public_certificate
from components.gateway.envoy_bootstrap import envoy_bootstrap
from components.gateway.handover import ENVOY_GOES_ON_S, hand_over_task
from components.nomad import runtime
from components.nomad.addresses import IN_FILES, in_arguments
from components.nomad.jobspec import File, Group, HttpCheck, Job, Service, Task
from slipway.plan.endpoint import Endpoint
from slipway.plan.platform import EQUAL, EnvoyPlan, PlatformPlan

# Beside the snapshots of Consul and Nomad: it outlives the task, and goes with the environment.
LAST_KNOWN = "${meta.snapshots}/gateway-${meta.address}.json"


def envoy_job(plan: PlatformPlan, envoy: EnvoyPlan) -> Job:
    return Job(
        id=envoy.name,
        datacenter=plan.datacenter,
        node_pool=envoy.pool,
        address=envoy.listener.host,
        priority=80,
        group=Group(
            name=public_certificate.GROUP,
            count=1,
            ports={"gateway": envoy.listener.port, "metrics": envoy.metrics.port},
            shutdown_delay_s=2,
            services=(
                Service(
                    name="envoy",
                    port="gateway",
                    # /ready says nothing about the listener, which answers /healthz itself.
                    checks=(
                        HttpCheck(path="/ready", port="metrics", protocol="https"),
                        _listener_check(envoy.listener),
                    ),
                ),
                Service(
                    name=ENVOY_METRICS,
                    port="metrics",
                    tags=("metrics",),
                    meta={
                        "metrics_path": "/stats/prometheus",
                        "metrics_scheme": "https",
                        "metrics_used_only": "true",
                    },
                ),
            ),
            tasks=(
                _envoy_task(plan, envoy),
                *((hand_over_task(),) if plan.gateway.shared_address else ()),
            ),
        ),
    )


def _envoy_task(plan: PlatformPlan, envoy: EnvoyPlan) -> Task:
    bootstrap = json.dumps(envoy_bootstrap(envoy, plan.peers), indent=2, sort_keys=True) + "\n"
    return Task(
        name="envoy",
        command=f"${{meta.runtime}}/tools/bin/envoy-{plan.tools['envoy']}/envoy",
        args=(
            "--config-path",
            "local/envoy.json",
            "--concurrency",
            "2",
            # Its socket names are machine-wide, so a second environment could not start.
            "--disable-hot-restart",
            # One filter writes five lines per message at this level.
            "--component-log-level",
            "misc:warning",
        ),
        files=(
            *certificate_files(envoy.name, change_mode="noop"),
            *secret_files(FOLDER),
            *_shown_to_clients(plan, envoy),
            File(path="local/envoy.json", content=bootstrap, templates=(IN_FILES,)),
        ),
        shutdown_delay_s=ENVOY_GOES_ON_S if plan.gateway.shared_address else 0,
        cpu_mhz=200,
        memory_mb=256,
    )


def xds_job(plan: PlatformPlan, envoy: EnvoyPlan) -> Job:
    gateway = plan.gateway
    return Job(
        id=envoy.xds_name,
        datacenter=plan.datacenter,
        node_pool=envoy.pool,
        address=envoy.listener.host,
        priority=80,
        group=Group(
            name="xds",
            count=1,
            ports={"grpc": envoy.xds.port, "http": envoy.xds_http.port},
            services=(
                Service(
                    name="xds",
                    port="grpc",
                    checks=(HttpCheck(path="/healthz", port="http", protocol="https"),),
                ),
                Service(
                    name="xds-http",
                    port="http",
                    tags=("metrics",),
                    meta={"metrics_path": "/metrics", "metrics_scheme": "https"},
                ),
            ),
            tasks=(
                Task(
                    name="xds",
                    command=runtime.python(gateway.xds_environment),
                    args=(
                        runtime.program(gateway.xds_bundle, "xds.py"),
                        "--listen",
                        in_arguments(envoy.xds).authority,
                        "--http",
                        in_arguments(envoy.xds_http).authority,
                        "--gateway",
                        in_arguments(envoy.listener).authority,
                        *_shared(gateway.shared_address),
                        *_public_certificate(plan),
                        "--consul",
                        plan.consul.at(in_arguments(envoy.xds).host).url,
                        *_signals(plan),
                        "--last-known",
                        LAST_KNOWN,
                        "--certificate",
                        FOLDER,
                    ),
                    files=certificate_files(envoy.xds_name, change_mode="restart"),
                    consul_identity=True,
                    cpu_mhz=100,
                    memory_mb=128,
                ),
            ),
        ),
    )


def _listener_check(listener: Endpoint) -> HttpCheck:
    """Consul's agent asks by address, which no public certificate has."""
    return HttpCheck(
        path="/healthz", port="gateway", protocol=listener.scheme, certificate_verified=False
    )


def _shown_to_clients(plan: PlatformPlan, envoy: EnvoyPlan) -> tuple[File, ...]:
    return (public_certificate.secret_file(envoy.name),) if plan.gateway.certificate else ()


def _public_certificate(plan: PlatformPlan) -> tuple[str, ...]:
    return ("--public-certificate", public_certificate.PATH) if plan.gateway.certificate else ()


def _signals(plan: PlatformPlan) -> tuple[str, ...]:
    """Where the control planes learn how busy replicas are."""
    if plan.gateway.weights == EQUAL:
        return ()
    return ("--prometheus", in_arguments(plan.monitoring.prometheus).url)


def _shared(address: str) -> tuple[str, ...]:
    return ("--shared-address", address) if address else ()
