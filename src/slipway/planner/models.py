"""One model as it will be served: its job, its envelope, its route."""

from __future__ import annotations

from slipway.config.artifacts import ENTRYPOINTS, Artifacts
from slipway.config.environment import AutoscalingSettings, DeploymentSettings
from slipway.config.load import Load
from slipway.config.model import ModelSettings
from slipway.plan.digest import digest
from slipway.plan.platform import (
    JsonObject,
    LatencyGoal,
    ModelPlan,
    PlannedLoad,
    ReplicaSpec,
    ScalingSpec,
)
from slipway.planner.memory.device import MIB

from .engine import DOCUMENT_VERSION, EnginePlan
from .placement import Resources

SPEC_DIGEST_LENGTH = 6
ROUTE_VERSION = 1
PORTS = ("openai", "grpc", "http", "metrics")

# Requests the gateway lets wait on one replica before it answers 503: enough to keep the
# engine's batch full while the autoscaler reacts.
MIN_CONCURRENT_REQUESTS = 64
CONCURRENT_REQUESTS_PER_SEQUENCE = 2


def plan_model(
    settings: ModelSettings,
    deployment: DeploymentSettings,
    engine: EnginePlan,
    artifacts: Artifacts,
    autoscaling: AutoscalingSettings,
    *,
    load: Load | None,
) -> ModelPlan:
    """The model's plan; `surge_replicas` is filled in once every model is placed."""
    replica = _replica(settings, engine, artifacts)
    # All that a running replica cannot change: the pool and the whole spec, aliases included
    # (the engine answers to them), what it registers as, and how it is rendered. Replica counts
    # are not here: scaling is no new spec.
    spec_digest = digest(
        {
            "model": settings.name,
            "pool": deployment.pool,
            "replica": replica,
            "surge": deployment.surge,
            "renderer": artifacts.job_renderer,
        },
        length=SPEC_DIGEST_LENGTH,
    )
    job_id = f"model-{settings.name}-{spec_digest}"
    service = job_id if deployment.surge is None else service_of_all_specs(settings.name)
    return ModelPlan(
        name=settings.name,
        aliases=settings.aliases,
        pool=deployment.pool,
        spec_digest=spec_digest,
        job_id=job_id,
        service=service,
        surge=deployment.surge,
        replica=replica,
        scaling=_scaling(settings, deployment, autoscaling),
        memory=engine.memory,
        goal=LatencyGoal(
            ttft_p95_ms=settings.slo.ttft_p95_ms, tpot_p95_ms=settings.slo.tpot_p95_ms
        ),
        route=_route(settings, service),
        license=engine.license,
        load=None if load is None else _planned(load),
    )


def _planned(load: Load) -> PlannedLoad:
    return PlannedLoad(
        requests_per_s=load.requests_per_s,
        input_tokens=load.input_tokens.mean,
        output_tokens=load.output_tokens.mean,
    )


def demand(replica: ReplicaSpec) -> Resources:
    """What one replica takes from a node."""
    return Resources(
        memory_bytes=replica.memory_bytes,
        cpu_mhz=replica.cpu_mhz,
        ports=len(replica.ports),
        accelerators=replica.accelerators,
    )


def _replica(settings: ModelSettings, engine: EnginePlan, artifacts: Artifacts) -> ReplicaSpec:
    document = {
        "schema_version": DOCUMENT_VERSION,
        "model": settings.name,
        "aliases": list(settings.aliases),
        "engine": engine.document,
        "load_timeout_s": settings.timeouts.load_s,
        "drain_timeout_s": settings.timeouts.drain_s,
    }
    if engine.weights is not None:
        document["weights"] = engine.weights.directory
    return ReplicaSpec(
        bundle=artifacts.bundles[engine.service],
        entrypoint=ENTRYPOINTS[engine.service],
        python=engine.python,
        environments={name: artifacts.environments[name] for name in engine.environments},
        document=document,
        weights=engine.weights,
        ports=PORTS,
        cpu_mhz=engine.cpu_mhz,
        memory_bytes=-(-engine.memory.total_bytes // MIB) * MIB,
        accelerators=0,
        load_timeout_s=settings.timeouts.load_s,
        drain_timeout_s=settings.timeouts.drain_s,
    )


def _scaling(
    settings: ModelSettings, deployment: DeploymentSettings, autoscaling: AutoscalingSettings
) -> ScalingSpec:
    return ScalingSpec(
        min_replicas=deployment.replicas.min,
        max_replicas=deployment.replicas.max,
        target_inflight_per_replica=target_inflight(settings, autoscaling),
        cooldown_s=autoscaling.cooldown_s,
    )


def target_inflight(settings: ModelSettings, autoscaling: AutoscalingSettings) -> int:
    """Requests in flight for which one replica is enough."""
    half_batch = max(1, settings.engine.max_num_seqs // 2)
    return autoscaling.target_inflight_per_replica or half_batch


def concurrent_requests(settings: ModelSettings) -> int:
    """Requests in flight per replica that the gateway lets in."""
    return max(
        MIN_CONCURRENT_REQUESTS, CONCURRENT_REQUESTS_PER_SEQUENCE * settings.engine.max_num_seqs
    )


def service_of_all_specs(model: str) -> str:
    """Never the service of another model: "all" is no digest, so no job ID ends like this."""
    return f"model-{model}-all"


def _route(settings: ModelSettings, service: str) -> JsonObject:
    return {
        "schema_version": ROUTE_VERSION,
        "model": settings.name,
        "aliases": list(settings.aliases),
        "backends": [{"service": service, "weight": 100}],
        "max_concurrent_requests_per_replica": concurrent_requests(settings),
        "stream_idle_timeout_s": settings.timeouts.stream_idle_s,
        "max_stream_duration_s": settings.timeouts.drain_s,
    }
