"""One replica under load: against itself, against its goals, and against a simulated engine."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slipway.config.calibration import CalibrationRow, CalibrationSettings
from slipway.plan.figures import DeviceMemory, Layout, Precision, ServingEstimate
from slipway.plan.platform import LatencyGoal
from slipway.planner.calibration import Calibration, make_calibration
from slipway.planner.engines.adapter import LoadShape, Served
from slipway.planner.engines.vllm.latency.queueing import Replica
from slipway.planner.engines.vllm.latency.replica import serving_estimate, with_sustained_error
from slipway.planner.engines.vllm.latency.replica_times import Requests, roofline_replica
from slipway.planner.engines.vllm.latency.roofline import decode, machine, pass_ms, prefill
from slipway.planner.engines.vllm.memory import device_memory
from slipway.planner.hardware import Hardware, Network
from tests.unit.planner.architectures import ACCELERATORS, CATALOG, MODELS
from tests.unit.planner.engines.vllm.latency.simulated_queue import (
    MAX_NUM_SEQS,
    STEP_TIMES,
    replica_under,
    simulate,
)

NO_GOAL = LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=None)
CHAT = LoadShape(requests_per_s=8.0, input_tokens=1024, output_tokens=256)


def _memory(model: str, accelerator: str, layout: Layout, max_num_seqs: int) -> DeviceMemory:
    return device_memory(
        MODELS[model],
        ACCELERATORS[accelerator],
        layout=layout,
        precision=Precision(),
        max_len=8192,
        max_num_seqs=max_num_seqs,
    )


def _estimate(
    load: LoadShape = CHAT,
    *,
    model: str = "llama-3.1-8b",
    accelerator: str = "H100-80",
    layout: Layout | None = None,
    goal: LatencyGoal = NO_GOAL,
    max_num_seqs: int = MAX_NUM_SEQS,
    calibration: Calibration | None = None,
) -> ServingEstimate:
    layout = layout or Layout()
    served = Served(
        architecture=MODELS[model],
        hardware=Hardware(accelerator_name=accelerator, accelerator=ACCELERATORS[accelerator]),
        layout=layout,
        precision=Precision(),
        load=load,
        goal=goal,
        memory=_memory(model, accelerator, layout, max_num_seqs),
        max_num_seqs=max_num_seqs,
        calibration=calibration,
    )
    return with_sustained_error(serving_estimate(served), served)


def _calibration(**measurement: Any) -> Calibration:
    row = CalibrationRow(
        model="llama-3.1-8b",
        accelerator="H100-80",
        machine="p5.48xlarge",
        date=datetime.date(2026, 11, 1),
        versions={"vllm": "0.14.0"},
        **measurement,
    )
    return make_calibration(CalibrationSettings(schema_version=1, rows=(row,)), CATALOG)


def _network(gb_per_s: float) -> Network:
    return Network(devices_per_node=8, gb_per_s=gb_per_s, latency_us=14)


def _figures(estimate: ServingEstimate) -> list[Any]:
    return [
        estimate.ttft_ms,
        estimate.tpot_ms,
        estimate.prefill_tokens_per_s,
        estimate.decode_tokens_per_s,
        estimate.requests_per_s,
    ]


def test_as_many_tokens_come_out_as_are_asked_for() -> None:
    estimate = _estimate()
    asked = CHAT.requests_per_s * CHAT.output_tokens
    assert estimate.decode_tokens_per_s.value == pytest.approx(asked, rel=0.01)


def test_an_estimate_says_so_and_has_bars_around_every_figure() -> None:
    for figure in _figures(_estimate(goal=LatencyGoal(ttft_p95_ms=500, tpot_p95_ms=30))):
        assert figure.basis == "estimate"
        assert "roofline" in figure.source
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low < figure.value < figure.high


def test_a_looser_goal_sustains_more() -> None:
    rates = [
        _estimate(goal=LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=goal)).requests_per_s.value
        for goal in (10, 15, 20, 40)
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


def test_what_is_sustained_within_a_goal_names_the_goal() -> None:
    tpot = _estimate(goal=LatencyGoal(ttft_p95_ms=5000, tpot_p95_ms=15)).requests_per_s
    ttft = _estimate(goal=LatencyGoal(ttft_p95_ms=60, tpot_p95_ms=500)).requests_per_s
    assert "limited by the TPOT goal of 15 ms" in tpot.source
    assert "limited by the TTFT goal of 60 ms" in ttft.source


def test_at_what_it_sustains_a_replica_keeps_its_goal() -> None:
    goal = LatencyGoal(ttft_p95_ms=300, tpot_p95_ms=20)
    sustained = _estimate(goal=goal).requests_per_s.value
    there = _estimate(replace(CHAT, requests_per_s=sustained), goal=goal)
    assert there.ttft_ms.value < 300
    assert there.tpot_ms.value < 20


def test_a_goal_that_one_request_misses_sustains_nothing() -> None:
    estimate = _estimate(
        model="llama-3.1-8b", accelerator="L4", goal=LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=30)
    )
    assert estimate.requests_per_s.value == 0
    assert "which a single request misses" in estimate.requests_per_s.source
    assert estimate.concurrency == 1
    assert estimate.tpot_ms.value > 30


def test_more_load_than_it_sustains_is_served_at_what_it_sustains() -> None:
    over = _estimate(replace(CHAT, requests_per_s=1000))
    at = _estimate(replace(CHAT, requests_per_s=over.requests_per_s.value))
    assert over.concurrency == pytest.approx(at.concurrency, abs=1)
    assert over.ttft_ms.value == pytest.approx(at.ttft_ms.value, rel=0.01)


def test_a_full_kv_cache_limits_the_sequences() -> None:
    long = LoadShape(requests_per_s=100, input_tokens=6000, output_tokens=2000)
    memory = _memory("llama-3.1-8b", "L4", Layout(), 256)
    estimate = _estimate(long, accelerator="L4")
    assert estimate.concurrency <= memory.kv_tokens / 7000
    assert "sequences it holds" in estimate.requests_per_s.source


def test_a_cache_that_holds_no_request_sustains_none() -> None:
    estimate = serving_estimate(
        Served(
            architecture=MODELS["llama-3.1-8b"],
            hardware=Hardware(accelerator_name="H100-80", accelerator=ACCELERATORS["H100-80"]),
            layout=Layout(),
            precision=Precision(),
            load=CHAT,
            goal=NO_GOAL,
            memory=replace(
                _memory("llama-3.1-8b", "H100-80", Layout(), 256),
                kv_cache_bytes=1000 * 128 * 1024,
                longest_sequence_bytes=1000 * 128 * 1024,
            ),
            max_num_seqs=MAX_NUM_SEQS,
        )
    )
    assert estimate.requests_per_s.value == 0
    assert "does not hold one request" in estimate.requests_per_s.source


def test_pipeline_stages_and_ranks_take_more_prompts_at_once_and_none_faster() -> None:
    one = _estimate(model="llama-3.1-70b", accelerator="H200", layout=Layout(tensor=4))
    for layout in (Layout(tensor=4, pipeline=2), Layout(tensor=4, data=2)):
        two = _estimate(model="llama-3.1-70b", accelerator="H200", layout=layout)
        ratio = two.prefill_tokens_per_s.value / one.prefill_tokens_per_s.value
        assert ratio == pytest.approx(2, rel=0.05)
        assert two.requests_per_s.value > 1.5 * one.requests_per_s.value


@given(
    model=st.sampled_from(sorted(MODELS)),
    accelerator=st.sampled_from(sorted(ACCELERATORS)),
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.sampled_from([2, 3, 4]),
    network=st.none() | st.floats(0.1, 400).map(_network),
    sequences=st.sampled_from([0.001, 1.0]),
)
def test_a_pipeline_without_load_takes_at_least_the_sum_of_its_stages(
    model: str,
    accelerator: str,
    tensor: int,
    pipeline: int,
    network: Network | None,
    sequences: float,
) -> None:
    """A request passes every stage: what stages divide is throughput."""
    requests = Requests(input_tokens=2048, output_tokens=256, most_sequences=64)
    hardware = Hardware(
        accelerator_name=accelerator, accelerator=ACCELERATORS[accelerator], network=network
    )
    layout = Layout(tensor=tensor, pipeline=pipeline)
    piped = roofline_replica(
        MODELS[model], hardware, requests, layout=layout, precision=Precision()
    ).at(sequences)
    served = machine(MODELS[model], hardware, layout=Layout(tensor=tensor), precision=Precision())
    assert piped.ttft_ms >= pass_ms(served, prefill(2048)) * 0.9999
    assert piped.tpot_ms >= pass_ms(served, decode(1, context=requests.context)) * 0.9999


@pytest.mark.parametrize("accelerator", sorted(ACCELERATORS))
def test_an_accelerator_without_comparison_says_so_and_has_wider_bars(accelerator: str) -> None:
    ttft, compared = _estimate(accelerator=accelerator).ttft_ms, _estimate().ttft_ms
    assert ttft.low is not None
    assert ttft.high is not None
    assert compared.low is not None
    assert compared.high is not None
    low, high = ttft.low / ttft.value, ttft.high / ttft.value
    usual_low, usual_high = compared.low / compared.value, compared.high / compared.value
    if ACCELERATORS[accelerator].validated is None:
        assert f"not validated on {accelerator}" in ttft.source
        assert low < usual_low
        assert usual_high < high
    else:
        assert "not validated" not in ttft.source
        assert (low, high) == pytest.approx((usual_low, usual_high))


def test_a_measured_replica_gives_what_was_measured() -> None:
    calibration = _calibration(
        serving={
            "requests_per_s": CHAT.requests_per_s,
            "input_tokens": CHAT.input_tokens,
            "output_tokens": CHAT.output_tokens,
            "ttft_ms": 61.0,
            "tpot_ms": 12.5,
        }
    )
    estimate = _estimate(calibration=calibration)
    assert estimate.ttft_ms.value == pytest.approx(61.0, rel=0.02)
    assert estimate.tpot_ms.value == pytest.approx(12.5, rel=0.02)
    for figure in _figures(estimate):
        assert figure.basis == "measured"
        assert "measured 2026-11-01 on p5.48xlarge" in figure.source
        assert figure.low is None


def test_a_measurement_of_one_layout_says_nothing_of_another() -> None:
    calibration = _calibration(step_times=STEP_TIMES)
    assert _estimate(calibration=calibration).tpot_ms.basis == "measured"
    other = _estimate(layout=Layout(tensor=2), calibration=calibration)
    assert other.tpot_ms.basis == "estimate"


def test_processors_are_estimated_only_from_a_measurement() -> None:
    def on_processors(calibration: Calibration | None) -> ServingEstimate:
        return serving_estimate(
            Served(
                architecture=MODELS["smollm2-135m"],
                hardware=None,
                layout=Layout(),
                precision=Precision(weights="fp32", kv="fp32"),
                load=LoadShape(requests_per_s=0.5, input_tokens=37, output_tokens=32),
                goal=NO_GOAL,
                memory=_memory("smollm2-135m", "L4", Layout(), 8),
                max_num_seqs=8,
                calibration=calibration,
            )
        )

    with pytest.raises(ValueError, match="processors have no roofline"):
        on_processors(None)
    row = CalibrationRow.model_validate(
        {
            "model": "smollm2-135m",
            "precision": {"weights": "fp32", "kv": "fp32"},
            "machine": "2 cores",
            "date": "2026-11-21",
            "versions": {"vllm": "0.32"},
            "serving": {
                "requests_per_s": 0.5,
                "input_tokens": 37,
                "output_tokens": 32,
                "ttft_ms": 75,
                "tpot_ms": 60.6,
            },
        }
    )
    settings_ = CalibrationSettings(schema_version=1, rows=(row,))
    estimate = on_processors(make_calibration(settings_, CATALOG))
    assert estimate.ttft_ms.value == pytest.approx(75, rel=0.02)
    assert estimate.tpot_ms.value == pytest.approx(60.6, rel=0.02)


@given(
    model=st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "gemma-3-12b"]),
    rate=st.floats(0.01, 50),
    more=st.floats(1, 5),
    lengths=st.tuples(st.integers(1, 8000), st.integers(1, 4000)),
)
def test_more_requests_never_make_a_replica_faster(
    model: str, rate: float, more: float, lengths: tuple[int, int]
) -> None:
    load = LoadShape(requests_per_s=rate, input_tokens=lengths[0], output_tokens=lengths[1])
    less = _estimate(load, model=model)
    assume(less.requests_per_s.value > 0)
    busier = _estimate(replace(load, requests_per_s=rate * more), model=model)
    assert less.concurrency <= busier.concurrency + 1
    assert less.ttft_ms.value <= busier.ttft_ms.value * 1.01
    assert less.tpot_ms.value <= busier.tpot_ms.value * 1.01


@pytest.mark.parametrize(
    ("input_tokens", "output_tokens", "requests_per_s"),
    [
        (1024, 256, 2),
        (1024, 256, 12),
        (256, 256, 24),
        (512, 1024, 6),
        (4096, 128, 2),
        (512, 16, 64),  # seven tenths of the time for prompts
        (1024, 64, 32),
    ],
)
def test_the_queue_is_that_of_a_simulated_engine(
    input_tokens: int, output_tokens: int, requests_per_s: float
) -> None:
    """Same step times on both sides: what differs is only the arithmetic of the queue."""
    load = LoadShape(
        requests_per_s=requests_per_s, input_tokens=input_tokens, output_tokens=output_tokens
    )
    replica = replica_under(load)
    point = replica.under(requests_per_s)
    simulated = simulate(load, requests=600)
    assert point.ttft_ms == pytest.approx(simulated.ttft_ms, rel=0.10)
    assert point.ttft_p95_ms == pytest.approx(simulated.ttft_p95_ms, rel=0.25)
    assert point.tpot_ms == pytest.approx(simulated.tpot_ms, rel=0.10)


def test_decoding_that_takes_no_time_does_not_divide_by_zero() -> None:
    replica = Replica(
        prompt_ms=20.0,
        next_prompt_ms=20.0,
        prompts_at_once=1,
        steps=((1.0, 5.0), (256.0, 5.0)),
        output_tokens=1,
        most_sequences=256,
    )
    assert replica.at(200).ttft_p95_ms > replica.at(2).ttft_p95_ms > 20
