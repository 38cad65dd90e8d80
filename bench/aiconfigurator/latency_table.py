"""The roofline's error against aiconfigurator's forward passes, as a markdown table.

    .venv/bin/python bench/aiconfigurator/latency_table.py

Reads aiconfigurator_latency.json in tests/unit/planner/engines/vllm/latency, which
latency_record.py writes, and does not need aiconfigurator itself. An error is
(estimate - tool) / tool; a configuration's error is the median of the absolute errors of its
shapes. The tool timed linear layers outside a compiled model, where conversions to 8 bits are
kernels of their own; all rows but "as planned" count them likewise.
Exits with 1 over the bar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

# The project's modules are found through the line above.
from slipway.planner.engines.vllm.latency.kernels import (  # noqa: E402
    EFFICIENCIES,
    RECORDED,
    Efficiencies,
)
from tests.unit.planner.engines.vllm.latency.latency_rows import (  # noqa: E402
    BAR,
    PHASES,
    Phase,
    Sample,
    configuration_errors,
    held_out_rows,
    of_phase,
    read_samples,
    recording,
    relative_error,
    serving_errors,
)


def main() -> int:
    document, samples = recording(), read_samples()
    print(f"Against {document['tool']}, recorded {document['date']}: prefill is")
    print(f"{document['prefill_ms']}; decode is {document['decode_ms']}.")
    print(f"{document['rule']}\n")
    print(
        "| rows | phase | configurations | passes | median error | 90 % of passes within | worst |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, chosen, efficiencies in _groups(samples):
        for phase in PHASES:
            passes = of_phase(phase, chosen)
            if passes:
                print(_line(name, phase, passes, efficiencies))
    _print_serving(document)
    held_out = [sample for sample in samples if not sample.tuning]
    medians = [_median_error(held_out, phase) for phase in PHASES]
    return int(max(medians) > BAR)


def _print_serving(document: Mapping[str, Any]) -> None:
    rows = held_out_rows()
    print(f"\nHeld out under load, {document['serving']}, at the same requests/s:\n")
    print("| quantity | configurations | median error | median signed error | worst |")
    print("|---|---|---|---|---|")
    for name, quantity in (
        ("TPOT", "tpot_ms"),
        ("TTFT (tool: times an empirical factor)", "ttft_ms"),
    ):
        errors = serving_errors(rows, quantity)
        worst = max(errors, key=lambda each: abs(errors[each]))
        print(
            f"| {name} | {len(errors)} | {median(map(abs, errors.values())):.1%} "
            f"| {median(errors.values()):+.1%} | {worst}: {errors[worst]:+.0%} |"
        )


def _groups(samples: list[Sample]) -> Iterator[tuple[str, list[Sample], Efficiencies]]:
    held_out = [sample for sample in samples if not sample.tuning]
    yield "tuning", [sample for sample in samples if sample.tuning], RECORDED
    yield "**held out**", held_out, RECORDED
    yield "held out, as planned", held_out, EFFICIENCIES
    in_8_bits = [sample for sample in held_out if sample.row["weights"] == "fp8"]
    yield "held out, as planned, fp8", in_8_bits, EFFICIENCIES
    for key in ("accelerator", "model"):
        for value in dict.fromkeys(sample.row[key] for sample in held_out):
            of_value = [each for each in held_out if each.row[key] == value]
            yield f"held out, {value}", of_value, RECORDED


def _line(name: str, phase: Phase, samples: list[Sample], efficiencies: Efficiencies) -> str:
    errors = configuration_errors(samples, efficiencies)
    worst = max(errors, key=errors.__getitem__)
    signed = sorted(relative_error(sample, efficiencies) for sample in samples)
    low, high = (signed[int(len(signed) * q)] for q in (0.05, 0.95))
    return (
        f"| {name} | {phase} | {len(errors)} | {len(samples)} | {median(errors.values()):.1%} "
        f"| {low:+.0%} .. {high:+.0%} | {worst}: {errors[worst]:.0%} |"
    )


def _median_error(samples: Iterable[Sample], phase: Phase) -> float:
    return median(configuration_errors(of_phase(phase, samples)).values())


if __name__ == "__main__":
    raise SystemExit(main())
