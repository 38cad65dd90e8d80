"""The roofline against aiconfigurator's forward passes: it was fitted to the tuning rows only.

They are compared with conversions to 8 bits as the tool timed them (kernels.RECORDED) and, for the
error bars, as they are planned.
"""

from __future__ import annotations

from statistics import median

import pytest

from slipway.planner.engines.vllm.latency.error_bars import error_bars
from slipway.planner.engines.vllm.latency.kernels import EFFICIENCIES, RECORDED, Efficiencies
from tests.unit.planner.architectures import ACCELERATORS
from tests.unit.planner.engines.vllm.latency.latency_rows import (
    BAR,
    PHASES,
    Phase,
    Sample,
    configuration_errors,
    hardware_of,
    held_out_rows,
    of_phase,
    read_samples,
    recording,
    relative_error,
    serving_errors,
)

SAMPLES = read_samples()
HELD_OUT = [sample for sample in SAMPLES if not sample.tuning]
BAR_OF_ONE_ACCELERATOR = 0.25  # H200 and B200 are extrapolated to


def test_no_model_is_both_tuned_on_and_held_out() -> None:
    tuning = {sample.row["model"] for sample in SAMPLES if sample.tuning}
    held_out = {sample.row["model"] for sample in HELD_OUT}
    assert tuning
    assert tuning.isdisjoint(held_out)


def test_two_accelerators_have_no_tuning_row_at_all() -> None:
    tuned = {sample.row["accelerator"] for sample in SAMPLES if sample.tuning}
    assert {sample.row["accelerator"] for sample in HELD_OUT} - tuned == {"H200", "B200"}


def test_the_recording_names_its_tool_its_date_and_its_rule() -> None:
    document = recording()
    assert document["tool"] == "aiconfigurator 0.8.0"
    assert document["date"]
    assert document["rule"].startswith("tuning: ")


@pytest.mark.parametrize("efficiencies", [RECORDED, EFFICIENCIES])
@pytest.mark.parametrize("phase", PHASES)
def test_the_median_error_of_held_out_configurations_is_at_most_a_fifth(
    phase: Phase, efficiencies: Efficiencies
) -> None:
    errors = configuration_errors(of_phase(phase, HELD_OUT), efficiencies)
    assert len(errors) >= 40
    worst = max(errors, key=errors.__getitem__)
    assert median(errors.values()) <= BAR, f"worst: {worst}, {errors[worst]:.0%}"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("accelerator", ["H100-80", "A100-80", "L40S", "H200", "B200"])
def test_no_accelerator_is_far_off(phase: Phase, accelerator: str) -> None:
    samples = [each for each in of_phase(phase, HELD_OUT) if each.row["accelerator"] == accelerator]
    assert median(configuration_errors(samples).values()) <= BAR_OF_ONE_ACCELERATOR


def test_under_load_the_median_tpot_of_held_out_configurations_is_off_by_at_most_a_fifth() -> None:
    """Its aggregated TTFT is no bar: it is multiplied by an empirical factor for queueing."""
    found = serving_errors(held_out_rows(), "tpot_ms")
    errors = {name: abs(error) for name, error in found.items()}
    assert len(errors) >= 40
    worst = max(errors, key=errors.__getitem__)
    assert median(errors.values()) <= BAR, f"worst: {worst}, {errors[worst]:.0%}"


@pytest.mark.parametrize("phase", PHASES)
def test_nine_of_ten_held_out_passes_lie_within_the_error_bars(phase: Phase) -> None:
    samples = of_phase(phase, HELD_OUT)
    assert sum(_within_bars(sample) for sample in samples) / len(samples) >= 0.9


def test_nine_of_ten_held_out_prompts_in_8_bits_lie_within_their_error_bars() -> None:
    samples = [each for each in of_phase("prefill", HELD_OUT) if each.row["weights"] == "fp8"]
    assert sum(_within_bars(sample) for sample in samples) / len(samples) >= 0.9


def test_the_catalog_calls_those_accelerators_validated_that_have_held_out_rows() -> None:
    validated = {name for name, each in ACCELERATORS.items() if each.validated is not None}
    assert validated == {sample.row["accelerator"] for sample in HELD_OUT}


def _within_bars(sample: Sample) -> bool:
    bars = error_bars(hardware_of(sample.row), sample.row["weights"])
    low, high = bars.prefill if sample.phase == "prefill" else bars.decode
    return low <= 1 / (1 + relative_error(sample, EFFICIENCIES)) <= high
