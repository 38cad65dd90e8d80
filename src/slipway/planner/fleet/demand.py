"""What one model demands of a pool: engine settings, load and goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.config.calibration import CacheSettings
from slipway.config.catalog import Architecture
from slipway.config.errors import Problem
from slipway.config.load import DeclaredLoad, Load, declared_load
from slipway.config.model import Model
from slipway.config.settings import Deployment
from slipway.plan.figures import Layout, Precision
from slipway.plan.platform import LatencyGoal
from slipway.planner.architecture import context_problems, find_architecture
from slipway.planner.engines.adapter import AcceleratorDemand, EngineAdapter, MemorySettings
from slipway.planner.engines.registry import engine_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of one model on pools of one kind. `layout` is None where the planner chooses
    it."""

    model: str
    engine: EngineAdapter
    architecture_name: str  # catalog key
    architecture: Architecture
    layout: Layout | None
    precision: Precision
    max_model_len: int
    max_num_seqs: int
    memory: MemorySettings
    cache: CacheSettings
    load: Load | None
    goal: LatencyGoal
    min_replicas: int
    max_replicas: int


def plan_demand(
    model: Model,
    deployment: Deployment,
    architectures: Mapping[str, Architecture],
    traces: Mapping[str, Load],
) -> Demand | list[Problem]:
    """The demand on accelerators, or the contradictions in the model file."""
    found = find_architecture(model, architectures)
    if isinstance(found, Problem):
        return [found]
    name, architecture = found
    asked = engine_of(model).accelerator_demand(model, architecture)
    if not isinstance(asked, AcceleratorDemand):
        return asked
    return _demand(
        model,
        deployment,
        architecture,
        load=load_of(model, traces),
        name=name,
        layout=stated_layout(model),
        precision=asked.precision,
        memory=asked.memory,
        cache=_cache(model, architecture, utilization=asked.memory.utilization),
    )


def plan_processor_demand(
    model: Model,
    deployment: Deployment,
    architectures: Mapping[str, Architecture],
    traces: Mapping[str, Load],
) -> Demand | list[Problem]:
    """The demand on processors, or the contradictions in the model file."""
    found = find_architecture(model, architectures)
    if isinstance(found, Problem):
        return [found]
    name, architecture = found
    if problems := _ramp_problems(model):
        return problems
    return _demand(
        model,
        deployment,
        architecture,
        load=load_of(model, traces),
        name=name,
        layout=stated_layout(model) or Layout(),
        precision=engine_of(model).processor_precision(model),
        memory=MemorySettings(),
        cache=_cache(model, architecture, size_bytes=model.settings.engine.kv_cache),
    )


def _demand(
    model: Model,
    deployment: Deployment,
    architecture: Architecture,
    *,
    load: Load | None,
    name: str,
    layout: Layout | None,
    precision: Precision,
    memory: MemorySettings,
    cache: CacheSettings,
) -> Demand | list[Problem]:
    settings, engine = model.settings, model.settings.engine
    max_model_len = engine.max_model_len or architecture.context
    problems = context_problems(model, architecture) or _load_problems(model, max_model_len, load)
    if problems:
        return problems
    return Demand(
        model=settings.name,
        engine=engine_of(model),
        architecture_name=name,
        architecture=architecture,
        layout=layout,
        precision=precision,
        max_model_len=max_model_len,
        max_num_seqs=engine.max_num_seqs,
        memory=memory,
        cache=cache,
        load=load,
        goal=LatencyGoal(
            ttft_p95_ms=settings.slo.ttft_p95_ms, tpot_p95_ms=settings.slo.tpot_p95_ms
        ),
        min_replicas=deployment.replicas.min,
        max_replicas=deployment.replicas.max,
    )


def _cache(
    model: Model,
    architecture: Architecture,
    *,
    utilization: float | None = None,
    size_bytes: int | None = None,
) -> CacheSettings:
    """As a replica of the model is started (its engine's document has the same values)."""
    engine = model.settings.engine
    return CacheSettings(
        max_model_len=engine.max_model_len or architecture.context,
        max_num_seqs=engine.max_num_seqs,
        gpu_memory_utilization=utilization,
        kv_cache_bytes=size_bytes,
        engine_args=engine.engine_args,
    )


def load_of(model: Model, traces: Mapping[str, Load]) -> Load | None:
    """The load declared in the model file, else that of its trace, else None."""
    load = model.settings.load
    if load is None:
        return None
    if isinstance(load, DeclaredLoad):
        return declared_load(load, f"{model.origin.source}: load")
    return traces[model.settings.name]


def stated_layout(model: Model) -> Layout | None:
    """The layout that the model file states, if any."""
    if not model.settings.states_parallel:
        return None
    parallel = model.settings.parallel
    return Layout(
        tensor=parallel.tensor,
        pipeline=parallel.pipeline,
        expert=parallel.expert,
        data=parallel.data,
    )


def _ramp_problems(model: Model) -> list[Problem]:
    load = model.settings.load
    if not isinstance(load, DeclaredLoad) or load.ramp is None:
        return []
    return [
        model.origin.problem(
            ("load", "ramp"),
            "applies to accelerators only: how long a replica on processors takes to start is not"
            " estimated, so neither is the ramp that it can follow",
            value=load.ramp.model_dump(),
            fix="remove `ramp`, or use a pool with accelerators",
        )
    ]


def _load_problems(model: Model, max_model_len: int, load: Load | None) -> list[Problem]:
    """Refuses a load whose requests exceed the engine's length."""
    if load is None or load.input_tokens.p50 + load.output_tokens.p50 <= max_model_len:
        return []
    tokens = load.input_tokens.p50 + load.output_tokens.p50
    return [
        model.origin.problem(
            ("load",),
            f"has requests of {tokens} tokens; the engine takes {max_model_len} at most",
            value={
                "input_tokens": load.input_tokens.p50,
                "output_tokens": load.output_tokens.p50,
            },
            fix=f"raise engine.max_model_len to {tokens} or more, or shorten the load",
        )
    ]
