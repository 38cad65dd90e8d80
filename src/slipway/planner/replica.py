"""One replica of a model, in terms that fit every scheduler."""

from __future__ import annotations

from slipway.config.artifacts import ENTRYPOINTS, Artifacts
from slipway.config.model import ModelSettings
from slipway.plan.platform import ContainerSpec, JsonObject, ReplicaSpec, TlsProxySpec
from slipway.planner.units import MIB

from .engines.adapter import EnginePlan

VERSION = 4  # of replica.json
PORTS = ("openai", "grpc", "http", "metrics", "liveness")


def replica_spec(
    settings: ModelSettings,
    engine: EnginePlan,
    artifacts: Artifacts,
    *,
    longest_step_s: float,
    stall_s: float,
    nodes: int,
    group: JsonObject | None,
    devices: int = 0,
    vendor: str = "",
    driver: str = "",
    store: str = "",
    container: ContainerSpec | None = None,
    proxy: TlsProxySpec | None,
) -> ReplicaSpec:
    """One replica over `nodes` nodes with `devices` of a vendor on each; `group` is of several. An
    engine that stands still for `stall_s` is killed."""
    document = {
        "schema_version": VERSION,
        "model": settings.name,
        "aliases": list(settings.aliases),
        "engine": engine.document,
        "load_timeout_s": settings.timeouts.load_s,
        "drain_timeout_s": settings.timeouts.drain_s,
        "longest_step_s": round(longest_step_s, 3),
        "stall_s": stall_s,
    }
    if devices:
        document["devices"] = {"vendor": vendor, "count": devices}
    if container is not None:
        document["container"] = dict(engine.image_has)
    if group is not None:
        document["group"] = group
    if engine.weights is not None:
        document["weights"] = engine.weights.directory
    return ReplicaSpec(
        bundle=artifacts.bundles[engine.service],
        entrypoint=ENTRYPOINTS[engine.service],
        python=engine.python,
        environments={
            name: artifacts.environments[made] for name, made in engine.environments.items()
        },
        document=document,
        weights=engine.weights,
        ports=PORTS,
        cpu_mhz=engine.cpu_mhz,
        memory_bytes=whole_mib(engine.host_memory_bytes),
        devices=devices,
        driver=driver,
        nodes=nodes,
        store=store,
        container=container,
        proxy=proxy,
        load_timeout_s=settings.timeouts.load_s,
        drain_timeout_s=settings.timeouts.drain_s,
    )


def whole_mib(size_bytes: int) -> int:
    """Rounded up, because schedulers count in MiB."""
    return -(-size_bytes // MIB) * MIB
