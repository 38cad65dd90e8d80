"""One model of a plan as input for the simulator (schemas/replay.schema.json)."""

from __future__ import annotations

from slipway.config.errors import ConfigError
from slipway.config.model import Model
from slipway.inputs import PlanInputs
from slipway.plan.platform import JsonObject, ModelPlan, PlatformPlan
from slipway.planner.calibration import calibration_of
from slipway.planner.engines.adapter import Operation
from slipway.planner.engines.registry import engine_of
from slipway.planner.fleet.demand import load_of
from slipway.planner.hardware import replica_hardware
from slipway.planner.supply.supplies import plan_hosts


def replay_fleet(
    inputs: PlanInputs,
    plan: PlatformPlan,
    name: str,
    *,
    label: str,
    routing: str,
    profile: str | None = None,
) -> JsonObject:
    """The fleet of one deployed model; `profile` names a row of engine_sim's profiles.json.

    Raises ConfigError if its step times are unknown.
    """
    model = inputs.models[name]
    planned = next(each for each in plan.models if each.name == name)
    engine, scaling = model.settings.engine, planned.stable.scaling
    return {
        "name": label,
        "profile": profile or _profile(inputs, model, planned),
        "engine": {
            "max_model_len": engine.max_model_len
            or inputs.catalog.models[planned.architecture].context,
            "max_num_seqs": engine.max_num_seqs * planned.layout.data,
            "max_num_batched_tokens": _batched_tokens(inputs, model, planned),
            "kv_tokens": planned.memory.kv_tokens,
        },
        "replicas": {
            "min": scaling.min_replicas,
            "max": scaling.max_replicas,
        },
        "scaling": {
            "target_inflight_per_replica": scaling.target_inflight_per_replica,
            "cooldown_s": scaling.cooldown_s,
            "interval_s": plan.autoscaling.evaluation_interval_s,
        },
        "startup_s": planned.cold_start.total_s.value,
        "routing": routing,
        "max_concurrent_requests_per_replica": planned.route["max_concurrent_requests_per_replica"],
        "accelerators_per_replica": planned.layout.devices if planned.accelerator else 0,
        "usd_per_hour_per_replica": _usd_per_hour(planned),
        "goal": {
            "ttft_ms": model.settings.slo.ttft_p95_ms,
            "tpot_ms": model.settings.slo.tpot_p95_ms,
        },
    }


def _profile(inputs: PlanInputs, model: Model, planned: ModelPlan) -> str | JsonObject:
    constants = engine_of(model).step_profile(model)
    if constants is not None:
        return constants
    supply = plan_hosts(inputs).supplies[planned.pool]
    found = engine_of(model).latency.step_times(
        inputs.catalog.models[planned.architecture],
        replica_hardware(supply, planned.layout) if planned.accelerator else None,
        layout=planned.layout,
        precision=planned.precision,
        around=_operation(inputs, model, planned),
        calibration=calibration_of(inputs),
    )
    if found is None:
        problem = model.origin.problem(
            ("engine",),
            "runs on processors, and its step times there were not measured",
            fix="name measured constants of services/engine_sim/profiles.json with --profile, or"
            " add a row with step_times to the calibration file",
        )
        raise ConfigError([problem])
    times, source = found
    return {
        "name": f"{planned.architecture} on {planned.layout.devices} x {planned.accelerator}",
        "source": source,
        **times.model_dump(),
    }


def _operation(inputs: PlanInputs, model: Model, planned: ModelPlan) -> Operation:
    """The operating point of the declared load, or a moderate one without a load."""
    load = load_of(model, inputs.traces)
    prompt, answer = (
        (1024.0, 256.0) if load is None else (load.input_tokens.mean, load.output_tokens.mean)
    )
    return Operation(
        prompt_tokens=min(prompt, _batched_tokens(inputs, model, planned)),
        sequences=16.0 if planned.serving is None else float(planned.serving.concurrency),
        context=prompt + answer / 2,
    )


def _batched_tokens(inputs: PlanInputs, model: Model, planned: ModelPlan) -> int:
    accelerator = inputs.catalog.accelerators.get(planned.accelerator)
    sequences = model.settings.engine.max_num_seqs * planned.layout.data
    return engine_of(model).batched_tokens(model, accelerator, sequences)


def _usd_per_hour(planned: ModelPlan) -> float | None:
    """What one replica costs; None where nothing is paid for. A model's cost is that of the
    replicas that its declared load needs, within its minimum and maximum."""
    cost, scaling = planned.cost.usd_per_hour.value, planned.stable.scaling
    if not cost:
        return None
    needed = round(planned.replicas_needed.value)
    return cost / min(max(needed, scaling.min_replicas), scaling.max_replicas)
