"""The capacity plan of an environment on this machine: no accelerators, nothing to buy."""

from __future__ import annotations

from slipway.config.catalog import Architecture
from slipway.config.errors import ConfigError, Problem
from slipway.config.inputs import PlanInputs
from slipway.config.load import Load
from slipway.config.model import Model, SimEngine
from slipway.plan.capacity import (
    CapacityPlan,
    ColdStart,
    DeviceMemory,
    Figure,
    Layout,
    ModelCapacity,
    PoolCapacity,
    Precision,
    ServingEstimate,
)
from slipway.plan.platform import MemoryEstimate, ModelPlan, PlatformPlan, Pool
from slipway.planner.fleet.cost import make_cost, output_tokens_per_s
from slipway.planner.fleet.demand import load_of, name_of
from slipway.planner.fleet.option import load_shape, meets_goal, sequences_at_mean_length
from slipway.planner.fleet.replicas import replicas_needed, utilization
from slipway.planner.fleet.supply import OWNED
from slipway.planner.latency.calibration import Calibration
from slipway.planner.latency.replica import serving_estimate
from slipway.planner.memory.device import DTYPE_SCHEMES
from slipway.planner.memory.parameters import count

from .engine import CPU_DTYPE, find_architecture

NOTHING_BOUGHT = "this machine: nothing is bought"
NO_ESTIMATE = "no estimate for processors: --calibrate measures latency and throughput"


def local_capacity(
    inputs: PlanInputs, plan: PlatformPlan, calibration: Calibration
) -> CapacityPlan:
    """Every model at its minimum; memory as in the PlatformPlan, times only where measured."""
    models = tuple(
        _model(inputs, inputs.models[model.name], model, calibration)
        for model in sorted(plan.models, key=lambda model: model.name)
    )
    return CapacityPlan(
        environment=plan.environment,
        pools=tuple(_pool(pool) for pool in plan.pools),
        models=models,
        cost=make_cost(0.0, NOTHING_BOUGHT, tokens_per_s=0.0, price_date=""),
        warnings=(NO_ESTIMATE,) if any(model.serving is None for model in models) else (),
    )


def _pool(pool: Pool) -> PoolCapacity:
    return PoolCapacity(
        pool=pool.name,
        kind=pool.kind,
        instance="",
        accelerator="",
        nodes_min=len(pool.nodes),
        nodes_max=len(pool.nodes),
        accelerators_per_node=0,
        accelerators_used=0,
        accelerators_used_at_most=0,
        market=OWNED,
        usd_per_hour=Figure(value=0.0, unit="USD/h", basis="declared", source=NOTHING_BOUGHT),
    )


def _model(
    inputs: PlanInputs, model: Model, plan: ModelPlan, calibration: Calibration
) -> ModelCapacity:
    architecture = find_architecture(model, inputs.catalog.models)
    if isinstance(architecture, Problem):
        raise ConfigError([architecture])
    parameters = count(architecture)
    load, least = load_of(model, inputs.traces), plan.scaling.min_replicas
    memory = _memory(plan.memory, model.settings.engine.max_model_len or architecture.context)
    serving = None
    if load is not None:
        serving = _measured(
            architecture,
            model,
            load=load,
            plan=plan,
            memory=memory,
            calibration=calibration,
        )
    return ModelCapacity(
        model=plan.name,
        architecture=name_of(architecture, inputs.catalog.models),
        pool=plan.pool,
        accelerator="",
        instance="",
        layout=Layout(),
        precision=_precision(model),
        memory=memory,
        parameters=parameters.total,
        active_parameters=parameters.active,
        sequences_at_mean_length=sequences_at_mean_length(memory, load),
        replicas_needed=_needed(load, serving, least, _cold_start(model).total_s.value),
        min_replicas=least,
        max_replicas=plan.scaling.max_replicas,
        utilization=utilization(load, serving, least),
        serving=serving,
        meets_goal=None
        if load is None or serving is None
        else meets_goal(plan.goal, load, serving, plan.scaling.max_replicas),
        cold_start=_cold_start(model),
        cost=make_cost(
            0.0,
            NOTHING_BOUGHT,
            tokens_per_s=0.0 if load is None else output_tokens_per_s(load),
            price_date="",
        ),
    )


def _measured(
    architecture: Architecture,
    model: Model,
    *,
    load: Load,
    plan: ModelPlan,
    memory: DeviceMemory,
    calibration: Calibration,
) -> ServingEstimate | None:
    """One replica of the minimum under its share of the load; None before it was measured."""
    precision = _precision(model)
    if calibration.find(architecture, None, layout=Layout(), precision=precision) is None:
        return None
    return serving_estimate(
        architecture,
        None,
        layout=Layout(),
        precision=precision,
        load=load_shape(load, plan.scaling.min_replicas),
        goal=plan.goal,
        memory=memory,
        max_num_seqs=model.settings.engine.max_num_seqs,
        calibration=calibration,
    )


def _needed(
    load: Load | None, serving: ServingEstimate | None, least: int, startup_s: float
) -> Figure:
    if load is not None and serving is not None and serving.requests_per_s.value:
        return replicas_needed(load.requests_per_s, serving.requests_per_s, startup_s=startup_s)
    return Figure(
        value=least,
        unit="replicas",
        basis="declared",
        source="replicas.min: nothing was measured",
    )


def _memory(estimate: MemoryEstimate, max_len: int) -> DeviceMemory:
    return DeviceMemory(
        device_bytes=estimate.total_bytes,
        usable_bytes=estimate.total_bytes,
        weights_bytes=estimate.weights_bytes,
        activations_bytes=0,
        graphs_bytes=0,
        communication_bytes=0,
        runtime_bytes=estimate.overhead_bytes,
        adapters_bytes=0,
        kv_cache_bytes=estimate.kv_cache_bytes,
        kv_bytes_per_token=estimate.kv_bytes_per_token,
        kv_tokens=estimate.kv_tokens,
        max_sequences_at_full_length=estimate.kv_tokens // max_len,
    )


def _precision(model: Model) -> Precision:
    dtype = DTYPE_SCHEMES[getattr(model.settings.engine, "dtype", None) or CPU_DTYPE]
    return Precision(weights=dtype, kv=dtype)


def _cold_start(model: Model) -> ColdStart:
    """What the model file says: nothing is measured before the first start."""
    engine = model.settings.engine
    if isinstance(engine, SimEngine):
        start = Figure(
            value=engine.startup_s, unit="s", basis="declared", source="engine.startup_s"
        )
    else:
        start = Figure(
            value=model.settings.timeouts.load_s,
            unit="s",
            basis="declared",
            source="timeouts.load_s: the longest it may take",
            low=0.0,
            high=model.settings.timeouts.load_s,
        )
    return ColdStart(parts={"load": start}, total_s=start, cliff_s=None)
