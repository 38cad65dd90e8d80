"""A model of a plan as the simulator's input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from slipway.config.calibration import StepTimes
from slipway.config.catalog import load_catalog
from slipway.config.errors import ConfigError
from slipway.config.what_if import parse_change
from slipway.inputs import load_inputs
from slipway.plan.figures import Layout, Precision
from slipway.plan.platform import JsonObject
from slipway.planner.calibration import Calibration, MeasuredReplica, Subject
from slipway.planner.engines.adapter import Operation
from slipway.planner.engines.vllm.latency.roofline import decode, machine, pass_ms, prefill
from slipway.planner.engines.vllm.latency.step_times import step_times
from slipway.planner.hardware import Hardware
from slipway.planner.reports.replay import replay_fleet
from stacks.planning import make_plan

ROOT = Path(__file__).parents[4]
CATALOG = load_catalog(ROOT)
LLAMA = CATALOG.models["llama-3.1-8b"]
H100 = Hardware(accelerator_name="H100-80", accelerator=CATALOG.accelerators["H100-80"])
AROUND = Operation(prompt_tokens=1024, sequences=32, context=1500)


def fleet(environment: str, model: str, *changes: str, profile: str | None = None) -> JsonObject:
    inputs = load_inputs(ROOT, environment, changes=[parse_change(text) for text in changes])
    return replay_fleet(
        inputs,
        make_plan(inputs),
        model,
        label="as planned",
        routing="least_request",
        profile=profile,
    )


def step_ms(times: StepTimes, *, prompt: float, sequences: float, context: float) -> float:
    return (
        max(times.base_ms, times.prefill_token_ms * prompt)
        + times.sequence_ms * sequences
        + times.context_token_ms * sequences * context
    )


def test_the_constants_give_the_rooflines_times_where_they_were_taken() -> None:
    layout, precision = Layout(), Precision(weights="fp8")
    found = step_times(
        LLAMA,
        H100,
        layout=layout,
        precision=precision,
        around=AROUND,
        calibration=Calibration(),
    )
    assert found is not None
    times, source = found
    served = machine(LLAMA, H100, layout=layout, precision=precision)
    for sequences, context in ((32, 1500), (1, 1500), (32, 3000)):
        assert step_ms(times, prompt=0, sequences=sequences, context=context) == pytest.approx(
            pass_ms(served, decode(sequences, context=context)), rel=0.02
        )
    assert times.prefill_token_ms * 1024 == pytest.approx(pass_ms(served, prefill(1024)))
    assert "roofline" in source


def test_measured_constants_override_the_rooflines() -> None:
    measured = StepTimes(base_ms=1, prefill_token_ms=2, sequence_ms=3, context_token_ms=4)
    row = MeasuredReplica(
        of=Subject(
            architecture=LLAMA,
            accelerator=H100.accelerator,
            layout=Layout(),
            precision=Precision(),
        ),
        measurement=measured,
        source="measured here",
    )
    found = [
        step_times(
            LLAMA,
            H100,
            layout=layout,
            precision=Precision(),
            around=AROUND,
            calibration=Calibration(replicas=(row,)),
        )
        for layout in (Layout(), Layout(tensor=2))
    ]
    assert found[0] == (measured, "measured here")
    assert found[1] is not None
    assert found[1][0] != measured


def test_a_model_on_accelerators_brings_everything_the_schema_asks_for() -> None:
    made = fleet("aws", "llama-3-1-8b")
    schema = json.loads((ROOT / "schemas/replay.schema.json").read_text())
    document = {"schema_version": 1, "trace": {"path": "t.jsonl"}, "fleets": [made]}
    jsonschema.Draft202012Validator(schema).validate(document)
    assert made["replicas"] == {"min": 5, "max": 10}
    assert made["startup_s"] > 60
    assert made["accelerators_per_replica"] == 1
    assert made["usd_per_hour_per_replica"] > 0
    assert made["goal"] == {"ttft_ms": 800, "tpot_ms": 50}


def test_a_change_of_the_environment_changes_the_fleet() -> None:
    changed = fleet(
        "aws",
        "llama-3-1-8b",
        "models.llama-3-1-8b.replicas.max=7",
        "models.llama-3-1-8b.engine.max_num_seqs=32",
    )
    assert changed["replicas"] == {"min": 5, "max": 7}
    assert changed["engine"]["max_num_seqs"] == 32
    assert changed["scaling"]["target_inflight_per_replica"] == 16


def test_the_limits_and_the_scaling_are_those_of_the_plan() -> None:
    inputs = load_inputs(ROOT, "aws")
    plan = make_plan(inputs)
    (model,) = [each for each in plan.models if each.name == "llama-3-1-8b"]
    scaling = replace(model.stable.scaling, target_inflight_per_replica=7, cooldown_s=11)
    planned = replace(
        model,
        releases=(replace(model.stable, scaling=scaling),),
        route={**model.route, "max_concurrent_requests_per_replica": 99},
    )
    changed = replace(
        plan,
        models=(planned,),
        autoscaling=replace(plan.autoscaling, evaluation_interval_s=13),
    )
    made = replay_fleet(inputs, changed, model.name, label="", routing="least_request")
    assert made["scaling"] == {
        "target_inflight_per_replica": 7,
        "cooldown_s": 11,
        "interval_s": 13,
    }
    assert made["max_concurrent_requests_per_replica"] == 99


def test_processors_need_measured_constants() -> None:
    with pytest.raises(ConfigError, match=r"not measured[\s\S]*--profile"):
        fleet("dev", "smollm2")
    named = fleet("dev", "smollm2", profile="cpu-smollm2")
    assert named["profile"] == "cpu-smollm2"
    assert named["usd_per_hour_per_replica"] is None
    assert named["accelerators_per_replica"] == 0
