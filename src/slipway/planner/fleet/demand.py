"""What one model asks of a pool: its engine's settings, its load, its goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.config.catalog import Architecture
from slipway.config.environment import FleetDeploymentSettings
from slipway.config.errors import Problem
from slipway.config.load import DeclaredLoad, Load, declared_load
from slipway.config.model import Model, VllmEngine
from slipway.plan.capacity import Layout, Precision
from slipway.plan.platform import LatencyGoal
from slipway.planner.engine import context_problems, find_architecture
from slipway.planner.memory.device import DTYPE_SCHEMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One model. `layout` is None when the planner may choose one."""

    model: str
    architecture_name: str  # catalog key
    architecture: Architecture
    layout: Layout | None
    precision: Precision
    max_model_len: int
    max_num_seqs: int
    memory_utilization: float
    load: Load | None
    goal: LatencyGoal
    min_replicas: int
    max_replicas: int


def plan_demand(
    model: Model,
    deployment: FleetDeploymentSettings,
    architectures: Mapping[str, Architecture],
    traces: Mapping[str, Load],
) -> Demand | list[Problem]:
    """The model's demand, or what contradicts itself in its file."""
    settings, engine = model.settings, model.settings.engine
    architecture = find_architecture(model, architectures)
    if isinstance(architecture, Problem):
        return [architecture]
    if not isinstance(engine, VllmEngine):
        problem = model.origin.problem(
            ("engine", "kind"),
            "runs on pools of kind local only",
            value=engine.kind,
            fix="use engine kind vllm",
        )
        return [problem]
    load = load_of(model, traces)
    max_model_len = engine.max_model_len or architecture.context
    problems = context_problems(model, architecture) or _load_problems(model, max_model_len, load)
    if problems:
        return problems
    return Demand(
        model=settings.name,
        architecture_name=name_of(architecture, architectures),
        architecture=architecture,
        layout=stated_layout(model),
        precision=precision_of(engine, architecture),
        max_model_len=max_model_len,
        max_num_seqs=engine.max_num_seqs,
        memory_utilization=engine.gpu_memory_utilization,
        load=load,
        goal=LatencyGoal(
            ttft_p95_ms=settings.slo.ttft_p95_ms, tpot_p95_ms=settings.slo.tpot_p95_ms
        ),
        min_replicas=deployment.replicas.min,
        max_replicas=deployment.replicas.max,
    )


def load_of(model: Model, traces: Mapping[str, Load]) -> Load | None:
    """Declared in the model's file, or that of its trace; None without either."""
    load = model.settings.load
    if load is None:
        return None
    if isinstance(load, DeclaredLoad):
        return declared_load(load, f"{model.origin.source}: load")
    return traces[model.settings.name]


def stated_layout(model: Model) -> Layout | None:
    """The layout that the model's file states, if it does."""
    if not model.settings.states_parallel:
        return None
    parallel = model.settings.parallel
    return Layout(
        tensor=parallel.tensor,
        pipeline=parallel.pipeline,
        expert=parallel.expert,
        data=parallel.data,
    )


def precision_of(engine: VllmEngine, architecture: Architecture) -> Precision:
    """As vLLM takes it: the stated quantization, else the stated dtype, else what is published."""
    dtype = DTYPE_SCHEMES[engine.dtype] if engine.dtype else None
    weights = engine.quantization or dtype or architecture.published_weights
    return Precision(weights=weights, kv=engine.kv_cache_dtype or dtype or "bf16")


def name_of(architecture: Architecture, architectures: Mapping[str, Architecture]) -> str:
    return next(name for name, known in architectures.items() if known is architecture)


def _load_problems(model: Model, max_model_len: int, load: Load | None) -> list[Problem]:
    """Requests that no engine of this length answers."""
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
