"""Fits the roofline's efficiencies to the tuning rows, and to nothing else.

    .venv/bin/python bench/aiconfigurator/latency_fit.py

A pattern search: each constant in turn is raised or lowered by a step as long as that lowers the
mean |log(estimate / row)| over the tuning rows; then the step is halved. Prints the values to write
into slipway.planner.engines.vllm.latency.kernels: `quantize_bytes` into RECORDED, the others into
Efficiencies.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from slipway.planner.engines.vllm.latency.kernels import RECORDED, Efficiencies  # noqa: E402
from slipway.planner.engines.vllm.latency.roofline import pass_ms  # noqa: E402
from tests.unit.planner.engines.vllm.latency.latency_rows import Sample, machine_of, read_samples  # noqa: E402

STEPS = (0.2, 0.1, 0.05, 0.025)
# No share of a rate exceeds 1.
SHARES = frozenset(
    {
        "bandwidth",
        "matrix",
        "matrix_8bit",
        "prompt_attention",
        "decode_attention",
        "experts",
        "link",
        "pcie_pair",
        "pcie_shared",
    }
)
# Counted from the kernel, not fitted.
FIXED = frozenset({"experts_quantize_bytes"})


def main() -> None:
    samples = [sample for sample in read_samples() if sample.tuning]
    efficiencies, loss = RECORDED, _loss(RECORDED, samples)
    print(f"{len(samples)} samples of tuning rows, mean |log| {loss:.4f} before")
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for changed in _neighbours(efficiencies, step):
                changed_loss = _loss(changed, samples)
                if changed_loss < loss - 1e-5:
                    efficiencies, loss, improved = changed, changed_loss, True
                    break
        print(f"step {step}: {loss:.4f}", flush=True)
    for name, value in asdict(efficiencies).items():
        print(f"    {name}: float = {value:.3g}")


def _neighbours(efficiencies: Efficiencies, step: float) -> Iterator[Efficiencies]:
    for constant in fields(efficiencies):
        if constant.name in FIXED:
            continue
        value: float = getattr(efficiencies, constant.name)
        for changed in (value * (1 + step), value / (1 + step)):
            if changed <= 1 or constant.name not in SHARES:
                yield replace(efficiencies, **{constant.name: changed})


def _loss(efficiencies: Efficiencies, samples: list[Sample]) -> float:
    return fmean(
        abs(math.log(pass_ms(machine_of(sample.row, efficiencies), sample.work) / sample.ms))
        for sample in samples
    )


if __name__ == "__main__":
    main()
