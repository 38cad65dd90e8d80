"""A model as a Nomad job: one group, one allocation a replica."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from components.autoscaling.policy import inflight_policy
from components.nomad.jobspec import (
    CheckRestart,
    File,
    Group,
    HttpCheck,
    Job,
    Scaling,
    Service,
    Task,
)
from slipway.plan.platform import AutoscalingPlan, ModelPlan, ReplicaSpec

GROUP = "replica"
RUNTIME = "${meta.runtime}"
MEBIBYTE = 1 << 20

# Consul deregisters first; Envoy has acknowledged the removal long before (its own check is the
# EDS update, not this delay). Then SIGTERM.
SHUTDOWN_DELAY_S = 5
DRAIN_MARGIN_S = 30  # the drain ends before the scheduler's patience


def model_job(model: ModelPlan, *, datacenter: str, autoscaling: AutoscalingPlan) -> Job:
    """The job of one spec of a model; a changed spec is a job of another name beside it."""
    replica = model.replica
    kill_timeout_s = replica.drain_timeout_s + DRAIN_MARGIN_S
    return Job(
        id=model.job_id,
        datacenter=datacenter,
        node_pool=model.pool,
        progress_deadline_s=kill_timeout_s + replica.load_timeout_s,
        meta={"slipway_model": model.name, "slipway_digest": model.spec_digest},
        group=Group(
            name=GROUP,
            count=model.scaling.min_replicas,
            ports=dict.fromkeys(replica.ports),
            services=_services(model),
            tasks=(*_weights_task(replica), _server_task(replica, kill_timeout_s)),
            shutdown_delay_s=SHUTDOWN_DELAY_S,
            scaling=Scaling(
                min_count=model.scaling.min_replicas,
                max_count=model.scaling.max_replicas,
                policy=inflight_policy(model, autoscaling),
            ),
        ),
    )


def _services(model: ModelPlan) -> tuple[Service, ...]:
    # Jobs of several specs can share a service: the gate tells their replicas apart.
    meta = {"model": model.name, "allocation": "${NOMAD_ALLOC_ID}"}
    grace_s = model.replica.load_timeout_s
    return (
        Service(
            name=f"{model.service}-openai",
            port="openai",
            tags=("metrics",),
            meta={**meta, "metrics_path": "/metrics"},
            checks=(
                HttpCheck(
                    path="/health",
                    port="openai",
                    restart=CheckRestart(after_failures=30, grace_s=grace_s),
                ),
            ),
        ),
        Service(
            name=f"{model.service}-grpc",
            port="grpc",
            meta=meta,
            checks=(HttpCheck(path=f"/v2/models/{model.name}/ready", port="http"),),
        ),
        Service(
            name=f"{model.service}-triton",
            port="metrics",
            tags=("metrics",),
            meta={**meta, "metrics_path": "/metrics"},
        ),
    )


def _server_task(replica: ReplicaSpec, kill_timeout_s: int) -> Task:
    return Task(
        name="server",
        command=f"{RUNTIME}/envs/{replica.environments[replica.python]}/bin/python",
        args=(
            f"{RUNTIME}/bundles/{replica.bundle}/{replica.entrypoint}",
            "--document",
            "local/replica.json",
        ),
        env=_environment(replica),
        files=(File(path="local/replica.json", content=_document(replica.document)),),
        cpu_mhz=replica.cpu_mhz,
        memory_mb=replica.memory_bytes // MEBIBYTE,
        kill_timeout_s=kill_timeout_s,
    )


def _weights_task(replica: ReplicaSpec) -> tuple[Task, ...]:
    if replica.weights is None:
        return ()
    return (
        Task(
            name="weights",
            command=f"{RUNTIME}/envs/{replica.environments['vllm']}/bin/python",
            args=(
                f"{RUNTIME}/bundles/{replica.bundle}/weights.py",
                "--document",
                "local/weights.json",
            ),
            env=_environment(replica),
            files=(File(path="local/weights.json", content=_document(replica.weights.document)),),
            cpu_mhz=replica.cpu_mhz,
            memory_mb=replica.memory_bytes // MEBIBYTE,
            runs_before_the_others=True,
        ),
    )


def _environment(replica: ReplicaSpec) -> dict[str, str]:
    ports = {f"SLIPWAY_PORT_{label.upper()}": f"${{NOMAD_PORT_{label}}}" for label in replica.ports}
    folders = {
        f"SLIPWAY_ENV_{name.upper()}": f"{RUNTIME}/envs/{folder}"
        for name, folder in replica.environments.items()
    }
    return {
        "SLIPWAY_ADDRESS": "${meta.address}",
        "SLIPWAY_RUNTIME": RUNTIME,
        "SLIPWAY_SCRATCH": "${meta.scratch}",
        **ports,
        **folders,
    }


def _document(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
