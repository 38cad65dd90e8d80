"""One model of a plan as the simulator's input: schemas/replay.schema.json."""

from __future__ import annotations

from slipway.config.environment import EnvironmentSettings, FleetSettings
from slipway.config.errors import ConfigError
from slipway.config.inputs import PlanInputs
from slipway.config.model import Model, SimEngine
from slipway.plan.capacity import CapacityPlan, ModelCapacity
from slipway.plan.platform import JsonObject
from slipway.planner.capacity import calibration_of
from slipway.planner.fleet.demand import load_of
from slipway.planner.fleet.supply import plan_supplies
from slipway.planner.latency.step_times import Operation, step_times
from slipway.planner.memory.device import default_batched_tokens
from slipway.planner.models import concurrent_requests, target_inflight

# vLLM's default for a server without a large accelerator, and engine_sim's.
_SMALL_BATCHED_TOKENS = 2048


def replay_fleet(
    inputs: PlanInputs,
    plan: CapacityPlan,
    name: str,
    *,
    label: str,
    routing: str,
    profile: str | None = None,
) -> JsonObject:
    """The fleet of one deployed model; `profile` names a row of engine_sim's profiles.json.

    Raises ConfigError when nothing says how long its steps take.
    """
    model = inputs.models[name]
    planned = next(each for each in plan.models if each.model == name)
    settings, engine = inputs.environment.settings, model.settings.engine
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
        "replicas": {"min": planned.min_replicas, "max": planned.max_replicas},
        "scaling": {
            "target_inflight_per_replica": target_inflight(model.settings, settings.autoscaling),
            "cooldown_s": settings.autoscaling.cooldown_s,
            "interval_s": settings.autoscaling.evaluation_interval_s,
        },
        "startup_s": planned.cold_start.total_s.value,
        "routing": routing,
        "max_concurrent_requests_per_replica": concurrent_requests(model.settings),
        "accelerators_per_replica": planned.layout.devices if planned.accelerator else 0,
        "usd_per_hour_per_replica": _usd_per_hour(inputs, settings, planned),
        "goal": {
            "ttft_ms": model.settings.slo.ttft_p95_ms,
            "tpot_ms": model.settings.slo.tpot_p95_ms,
        },
    }


def _profile(inputs: PlanInputs, model: Model, planned: ModelCapacity) -> str | JsonObject:
    engine = model.settings.engine
    if isinstance(engine, SimEngine):
        return engine.profile
    found = step_times(
        inputs.catalog.models[planned.architecture],
        inputs.catalog.accelerators.get(planned.accelerator),
        layout=planned.layout,
        precision=planned.precision,
        around=_operation(inputs, model, planned),
        calibration=calibration_of(inputs),
    )
    if found is None:
        problem = model.origin.problem(
            ("engine",),
            "runs on processors, and how long its steps take there was not measured",
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


def _operation(inputs: PlanInputs, model: Model, planned: ModelCapacity) -> Operation:
    """Around the declared load, or a middling one without any."""
    load = load_of(model, inputs.traces)
    prompt, answer = (
        (1024.0, 256.0) if load is None else (load.input_tokens.mean, load.output_tokens.mean)
    )
    return Operation(
        prompt_tokens=min(prompt, _batched_tokens(inputs, model, planned)),
        sequences=16.0 if planned.serving is None else float(planned.serving.concurrency),
        context=prompt + answer / 2,
    )


def _batched_tokens(inputs: PlanInputs, model: Model, planned: ModelCapacity) -> int:
    """vLLM's max_num_batched_tokens: stated, or its default."""
    engine = model.settings.engine
    for key in ("max_num_batched_tokens", "max-num-batched-tokens"):
        if key in engine.engine_args:
            return int(engine.engine_args[key])
    accelerator = inputs.catalog.accelerators.get(planned.accelerator)
    default = default_batched_tokens(accelerator) if accelerator else _SMALL_BATCHED_TOKENS
    return max(default, engine.max_num_seqs * planned.layout.data)


def _usd_per_hour(
    inputs: PlanInputs, settings: EnvironmentSettings, planned: ModelCapacity
) -> float | None:
    """What one replica costs; None where nothing is bought."""
    if not isinstance(settings, FleetSettings):
        return None
    supplies, _ = plan_supplies(settings.pools, inputs.catalog, inputs.environment.origin)
    return supplies[planned.pool].device_usd_per_hour * planned.layout.devices
