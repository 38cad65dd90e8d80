"""The forward passes that bench/aiconfigurator/latency_record.py asked aiconfigurator about."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

from slipway.config.catalog import Catalog, load_catalog
from slipway.plan.figures import Layout, Precision, ServingEstimate
from slipway.plan.platform import LatencyGoal
from slipway.planner.engines.adapter import LoadShape, Served
from slipway.planner.engines.vllm.latency.kernels import RECORDED, Efficiencies
from slipway.planner.engines.vllm.latency.replica import serving_estimate
from slipway.planner.engines.vllm.latency.roofline import (
    Machine,
    Pass,
    decode,
    machine,
    pass_ms,
    prefill,
)
from slipway.planner.engines.vllm.memory import device_memory
from slipway.planner.hardware import Hardware

Phase = Literal["prefill", "decode"]

ROOT = Path(__file__).resolve().parents[6]
MAX_NUM_SEQS = 1024
PHASES: tuple[Phase, ...] = ("prefill", "decode")
BAR = 0.20  # median error of the held-out configurations
RECORDING = Path(__file__).with_name("aiconfigurator_latency.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One forward pass of one configuration, and how long the tool says it takes."""

    phase: Phase
    shape: str  # "4096" tokens, "64x1024" sequences x context
    work: Pass
    ms: float
    row: Mapping[str, Any]

    @property
    def tuning(self) -> bool:
        return bool(self.row["side"] == "tuning")


def configuration(row: Mapping[str, Any]) -> str:
    return (
        f"{row['model']} {row['weights']} on {row['accelerator']}, "
        f"tensor {row['tensor']} pipeline {row['pipeline']} expert {row['expert']}"
    )


def recording() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(RECORDING.read_text("utf-8"))
    return document


def read_samples() -> list[Sample]:
    return [sample for row in recording()["rows"] for sample in _samples(row)]


def machine_of(row: Mapping[str, Any], efficiencies: Efficiencies = RECORDED) -> Machine:
    return machine(
        _catalog().models[row["model"]],
        hardware_of(row),
        layout=_layout(row),
        precision=Precision(weights=row["weights"]),
        efficiencies=efficiencies,
    )


def hardware_of(row: Mapping[str, Any]) -> Hardware:
    """On one node: stages on two nodes send less than 1 % of a row over their network."""
    name = row["accelerator"]
    return Hardware(accelerator_name=name, accelerator=_catalog().accelerators[name])


def held_out_rows() -> list[Mapping[str, Any]]:
    return [row for row in recording()["rows"] if row["side"] == "held out"]


def of_phase(phase: Phase, samples: Iterable[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.phase == phase]


def relative_error(sample: Sample, efficiencies: Efficiencies = RECORDED) -> float:
    """(estimate - tool) / tool"""
    return pass_ms(machine_of(sample.row, efficiencies), sample.work) / sample.ms - 1


def serving_errors(rows: Iterable[Mapping[str, Any]], quantity: str) -> dict[str, float]:
    """Configuration -> (estimate - tool) / tool of "ttft_ms" or "tpot_ms" at the request rate of
    the tool's aggregated estimate; rows without one are left out."""
    return {
        configuration(row): getattr(_estimate_at(row), quantity).value / row["serving"][quantity]
        - 1
        for row in rows
        if row["serving"]
    }


def _estimate_at(row: Mapping[str, Any]) -> ServingEstimate:
    """With room for every sequence: the question is of time, not of memory."""
    catalog, layout = _catalog(), _layout(row)
    architecture, precision = catalog.models[row["model"]], Precision(weights=row["weights"])
    accelerator = catalog.accelerators[row["accelerator"]]
    memory = device_memory(
        architecture,
        accelerator,
        layout=layout,
        precision=precision,
        max_len=2048,
        max_num_seqs=MAX_NUM_SEQS,
    )
    cache = MAX_NUM_SEQS * memory.sequence.held_bytes(2048)
    return serving_estimate(
        Served(
            architecture=architecture,
            hardware=hardware_of(row),
            layout=layout,
            precision=precision,
            load=LoadShape(
                requests_per_s=row["serving"]["requests_per_s"],
                input_tokens=1024,
                output_tokens=256,
            ),
            goal=LatencyGoal(ttft_p95_ms=None, tpot_p95_ms=None),
            memory=replace(memory, kv_cache_bytes=cache),
            max_num_seqs=MAX_NUM_SEQS,
        )
    )


def _layout(row: Mapping[str, Any]) -> Layout:
    return Layout(tensor=row["tensor"], pipeline=row["pipeline"], expert=row["expert"])


def configuration_errors(
    samples: Iterable[Sample], efficiencies: Efficiencies = RECORDED
) -> dict[str, float]:
    """Configuration -> median absolute relative error over its shapes."""
    errors: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        errors[configuration(sample.row)].append(abs(relative_error(sample, efficiencies)))
    return {name: median(each) for name, each in errors.items()}


def _samples(row: Mapping[str, Any]) -> Iterator[Sample]:
    for tokens, ms in row["prefill_ms"].items():
        work = prefill(float(tokens))
        yield Sample(phase="prefill", shape=tokens, work=work, ms=ms, row=row)
    for shape, ms in row["decode_ms"].items():
        sequences, context = shape.split("x")
        work = decode(float(sequences), context=float(context))
        yield Sample(phase="decode", shape=shape, work=work, ms=ms, row=row)


@cache
def _catalog() -> Catalog:
    return load_catalog(ROOT)
