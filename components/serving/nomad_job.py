"""A model as a Nomad job: one group, one allocation per replica."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from components.autoscaling.policy import inflight_policy
from components.envoy.sidecar import MEBIBYTE
from components.nomad import runtime
from components.nomad.addresses import LOOPBACK
from components.nomad.jobspec import (
    LEFT_DELIMITER,
    RIGHT_DELIMITER,
    CheckRestart,
    Container,
    Devices,
    File,
    Group,
    HttpCheck,
    Job,
    Migration,
    Restart,
    Scaling,
    Service,
    Task,
)
from components.nomad.runtime import RUNTIME
from components.serving.members import SERVER, as_member
from components.serving.services import service_of
from components.serving.tls_proxy import LIVENESS, proxy_task
from slipway.plan.platform import (
    STABLE,
    AutoscalingPlan,
    JsonObject,
    ModelPlan,
    ModelWithoutJobs,
    Release,
    ReplicaSpec,
    WeightsSpec,
)

GROUP = "replica"
WEIGHTS_TASK = "weights"
# A source that refuses, or has limits, is not asked every second.
FETCHED_AGAIN = Restart(attempts=20, interval_s=600, delay_s=30)
TASK_FOLDER = "${NOMAD_TASK_DIR}"

# From deregistration in Consul to SIGTERM. Envoy acknowledges the removal (the EDS update) long
# before it is over.
SHUTDOWN_DELAY_S = 5
DRAIN_MARGIN_S = 30  # the drain ends before the scheduler's timeout
PLACEMENT_MARGIN_S = 60  # around loading: placement before, passing checks after


def model_job(
    model: ModelPlan, release: Release, *, datacenter: str, autoscaling: AutoscalingPlan
) -> Job:
    """The job of a release. A changed spec becomes a job of another name beside it.

    A replica over several nodes is a group of allocations, one on each: counts are multiples of
    its size.
    """
    replica = model.replica
    kill_timeout_s = replica.drain_timeout_s + DRAIN_MARGIN_S
    return Job(
        id=release.job_id,
        datacenter=datacenter,
        node_pool=model.pool,
        progress_deadline_s=kill_timeout_s + replica.load_timeout_s,
        meta={
            "slipway_model": model.name,
            "slipway_digest": release.spec_digest,
            **_named(release),
            **({"slipway_members": str(replica.nodes)} if replica.nodes > 1 else {}),
        },
        group=dataclasses.replace(
            _replica_group(model, service=release.service),
            count=release.scaling.min_replicas * replica.nodes,
            scaling=Scaling(
                min_count=release.scaling.min_replicas * replica.nodes,
                max_count=release.scaling.max_replicas * replica.nodes,
                policy=inflight_policy(model, release, autoscaling),
            ),
            migration=Migration(
                healthy_deadline_s=replacement_s(model),
                # A member above rank 0 never registers the services whose checks the job has, and
                # while it is not healthy Nomad drains no other.
                health_check="checks" if replica.nodes == 1 else "task_states",
            ),
        ),
    )


def replacement_s(model: ModelPlan) -> int:
    """The longest time in which a replica on another node is ready to take over."""
    return model.replica.load_timeout_s + PLACEMENT_MARGIN_S


def ending_s(model: ModelPlan) -> int:
    """The longest time in which a replica that is told to end finishes its requests and ends."""
    return SHUTDOWN_DELAY_S + model.replica.drain_timeout_s + DRAIN_MARGIN_S


def _named(release: Release) -> dict[str, str]:
    """Only other releases are named: a running stable job would restart if its meta changed."""
    return {} if release.name == STABLE else {"slipway_release": release.name}


def replica_content(model: ModelWithoutJobs) -> JsonObject:
    """The part of a model's job that cannot change under running replicas, without names that
    contain the spec's digest. Different content needs another job."""
    return _replica_group(model, service="").render()


def _replica_group(model: ModelWithoutJobs, *, service: str) -> Group:
    replica = model.replica
    group = Group(
        name=GROUP,
        count=0,
        ports=dict.fromkeys(replica.ports),
        services=_services(model, service),
        tasks=(
            *_proxy_task(replica),
            *_weights_task(replica),
            _server_task(model, replica.drain_timeout_s + DRAIN_MARGIN_S),
        ),
        shutdown_delay_s=SHUTDOWN_DELAY_S,
    )
    return group if replica.nodes == 1 else as_member(group, service, replica.nodes)


def _services(model: ModelWithoutJobs, service: str) -> tuple[Service, ...]:
    """One service for each protocol that clients use, and those that only Prometheus uses."""
    # Jobs of several specs can share a service; the gate tells their replicas apart.
    # The gateway places keys by the name of an allocation, which its replacement has, too.
    meta = {
        "model": model.name,
        "allocation": "${NOMAD_ALLOC_ID}",
        "replica": "${NOMAD_ALLOC_NAME}",
    }
    # It would restart the task of the service, which in a group is not the server: there members
    # watch each other, and the launcher judges the engine.
    alone = model.replica.nodes == 1
    grace_s = model.replica.load_timeout_s
    restart = CheckRestart(after_failures=30, grace_s=grace_s) if alone else None
    # Over https Consul's agent and Prometheus show certificates to the replica's proxy.
    proxy = model.replica.proxy
    protocol = "http" if proxy is None else "https"
    name = proxy.server_name if proxy is not None and proxy.by_name else ""
    scheme = {} if protocol == "http" else {"metrics_scheme": protocol}
    metrics = {**meta, "metrics_path": "/metrics", **scheme}
    # Where the gateway asks whether the replica's engine moves: GET /slipway/live.
    live = {"liveness_port": f"${{NOMAD_PORT_{LIVENESS}}}"}
    by_protocol = {
        "http": Service(
            name=service_of(service, "http"),
            port="openai",
            tags=("metrics",),
            meta={**metrics, **live},
            checks=(
                HttpCheck(
                    path="/health",
                    port="openai",
                    protocol=protocol,
                    restart=restart,
                    server_name=name,
                ),
            ),
        ),
        "grpc": Service(
            name=service_of(service, "grpc"),
            port="grpc",
            meta={**meta, **live},
            checks=(
                HttpCheck(
                    path=f"/v2/models/{model.name}/ready",
                    port="http",
                    protocol=protocol,
                    server_name=name,
                    # Only one check restarts a hanging replica.
                    restart=None if "http" in model.protocols else restart,
                ),
            ),
        ),
    }
    scraped = {"triton": "metrics"}
    if "http" not in model.protocols:  # else the service for clients is scraped
        scraped = {"engine": "openai"} | scraped
    return (
        *(by_protocol[protocol] for protocol in model.protocols),
        *(
            Service(name=f"{service}-{name}", port=port, tags=("metrics",), meta=metrics)
            for name, port in scraped.items()
        ),
    )


def _devices(model: ModelWithoutJobs) -> Devices | None:
    if not model.replica.devices:
        return None
    return Devices(name=f"{model.accelerator_vendor}/gpu", count=model.replica.devices)


def _server_task(model: ModelWithoutJobs, kill_timeout_s: int) -> Task:
    replica = model.replica
    return Task(
        name=SERVER,
        command=_python(replica, replica.python),
        args=(
            f"{_bundle(replica)}/{replica.entrypoint}",
            "--document",
            _document_path(replica, "replica.json"),
        ),
        env=_environment(replica) | _in_container(model),
        files=(File(path="local/replica.json", content=_document(replica.document)),),
        cpu_mhz=_cpu_mhz(replica),
        memory_mb=replica.memory_bytes // MEBIBYTE,
        kill_timeout_s=kill_timeout_s,
        devices=_devices(model),
        container=_container(
            replica, read=(_weights_folder(replica),), written=(_engine_cache(model),)
        ),
    )


def _proxy_task(replica: ReplicaSpec) -> tuple[Task, ...]:
    return () if replica.proxy is None else (proxy_task(replica.proxy, replica.ports),)


def _weights_task(replica: ReplicaSpec) -> tuple[Task, ...]:
    weights = replica.weights
    if weights is None:
        return ()
    credentials, reads_them = _credentials(weights)
    return (
        Task(
            name=WEIGHTS_TASK,
            command=_python(replica, weights.python),
            args=(
                f"{_bundle(replica)}/{weights.entrypoint}",
                "--document",
                _document_path(replica, "weights.json"),
            ),
            env=_environment(replica) | reads_them,
            files=(
                File(path="local/weights.json", content=_document(weights.document)),
                *credentials,
            ),
            cpu_mhz=_cpu_mhz(replica),
            memory_mb=replica.memory_bytes // MEBIBYTE,
            restart=FETCHED_AGAIN if weights.fetched_by_hosts else None,
            runs_before_the_others=True,
            container=_container(
                replica,
                read=tuple(f"{RUNTIME}/envs/{name}" for name in replica.environments.values()),
                written=(_weights_folder(replica),),
            ),
        ),
    )


def _credentials(weights: WeightsSpec) -> tuple[tuple[File, ...], dict[str, str]]:
    """The file with the credentials of the weights' source, and how the task learns of it. It is
    empty where the variable does not exist: the task says so, while Nomad would wait for it."""
    if weights.credentials is None:
        return (), {}
    name, left, right = weights.credentials, LEFT_DELIMITER, RIGHT_DELIMITER
    content = (
        f'{{{left} if nomadVarExists "{name}" {right}{left} with nomadVar "{name}" {right}'
        f"{left} range $i, $item := .Tuples {right}{left} if $i {right},{left} end {right}"
        f"{left} $item.K | toJSON {right}:{left} $item.V | toJSON {right}"
        f"{left} end {right}{left} end {right}{left} end {right}}}"
    )
    path = "secrets/credentials.json"
    file = File(path=path, content=content, templates=(content,))
    return (file,), {"SLIPWAY_CREDENTIALS": "${NOMAD_SECRETS_DIR}/credentials.json"}


def _python(replica: ReplicaSpec, environment: str) -> str:
    """The interpreter of an environment or, in a container, the image's own."""
    if replica.container is not None:
        return "python3"
    return runtime.python(replica.environments[environment])


def _bundle(replica: ReplicaSpec) -> str:
    return f"{RUNTIME}/bundles/{replica.bundle}"


def _document_path(replica: ReplicaSpec, name: str) -> str:
    """raw_exec starts a task in its own folder, and Docker in one of the image's."""
    return f"local/{name}" if replica.container is None else f"{TASK_FOLDER}/{name}"


def _weights_folder(replica: ReplicaSpec) -> str:
    """A model store is mounted whole: the weights step looks whether it is a disk of its own."""
    return replica.store or f"{RUNTIME}/weights"


def _container(
    replica: ReplicaSpec, *, read: tuple[str, ...], written: tuple[str, ...]
) -> Container | None:
    """One that sees its code, and these folders of the host."""
    container = replica.container
    if container is None:
        return None
    return Container(
        image=container.image,
        read=(_bundle(replica), *read),
        written=written,
        shared_memory_bytes=container.shared_memory_bytes,
        memory_limit_mb=container.memory_limit_bytes // MEBIBYTE,
    )


def _in_container(model: ModelWithoutJobs) -> dict[str, str]:
    """Where its engine keeps what it compiles, and what NVIDIA's runtime puts into it beside the
    devices that the scheduler names."""
    if model.replica.container is None:
        return {}
    cache = {"SLIPWAY_ENGINE_CACHE": _engine_cache(model)}
    if model.accelerator_vendor != "nvidia":
        return cache
    return cache | {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def _engine_cache(model: ModelWithoutJobs) -> str:
    """Engines load code from it: containers of other models cannot put any there."""
    return f"{RUNTIME}/vllm/{model.name}"


def _cpu_mhz(replica: ReplicaSpec) -> int:
    """What the proxy leaves to the replica's other tasks."""
    return replica.cpu_mhz - (0 if replica.proxy is None else replica.proxy.cpu_mhz)


def _environment(replica: ReplicaSpec) -> dict[str, str]:
    ports = {f"SLIPWAY_PORT_{label.upper()}": f"${{NOMAD_PORT_{label}}}" for label in replica.ports}
    folders = {
        f"SLIPWAY_ENV_{name.upper()}": f"{RUNTIME}/envs/{folder}"
        for name, folder in replica.environments.items()
    }
    return {
        "SLIPWAY_ADDRESS": "${meta.address}" if replica.proxy is None else LOOPBACK,
        "SLIPWAY_RUNTIME": RUNTIME,
        **({"SLIPWAY_STORE": replica.store} if replica.store else {}),
        **_writable_folders(replica),
        **ports,
        **folders,
    }


def _writable_folders(replica: ReplicaSpec) -> dict[str, str]:
    """A container's root is read-only: scratch and compilers' HOME are in the task's folder."""
    if replica.container is None:
        return {"SLIPWAY_SCRATCH": "${meta.scratch}"}
    return {"SLIPWAY_SCRATCH": f"{TASK_FOLDER}/s", "HOME": TASK_FOLDER}


def _document(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
