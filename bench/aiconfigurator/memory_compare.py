"""Compares the planner's memory per GPU with the recorded rows of aiconfigurator.

    .venv/bin/python bench/aiconfigurator/memory_compare.py

Prints a markdown table with the worst case of each accelerator. Both sides are estimates. They
share neither code nor constants, except the 551 MiB of context and the sizes of NCCL's buffers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from slipway.config.catalog import Catalog, load_catalog  # noqa: E402
from slipway.plan.figures import Layout, Precision  # noqa: E402
from slipway.planner.engines.vllm.kv_cache import kv_bytes  # noqa: E402
from slipway.planner.engines.vllm.memory import device_memory  # noqa: E402
from slipway.planner.engines.vllm.weights import rotation_bytes  # noqa: E402
from slipway.planner.quantization import KV_BYTES  # noqa: E402
from slipway.planner.units import GIB  # noqa: E402

RECORD = ROOT / "tests/unit/planner/engines/vllm/aiconfigurator_memory.json"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """GiB per GPU by part, the planner's and the tool's."""

    model: str
    accelerator: str
    setup: str
    ours: Mapping[str, float]
    theirs: Mapping[str, float]

    @property
    def error(self) -> float:
        return self.ours["total"] / self.theirs["total"] - 1


def main() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = list(comparisons(record, load_catalog(ROOT)))
    print(f"aiconfigurator {record['aiconfigurator']}, recorded {record['recorded']}\n")
    print("| GPU | configurations | median error | within 5 % | worst |")
    print("|---|---|---|---|---|")
    for accelerator in dict.fromkeys(each.accelerator for each in found):
        _print_row(accelerator, [each for each in found if each.accelerator == accelerator])
    _print_row("all", found)


def comparisons(record: Mapping[str, Any], catalog: Catalog) -> Iterable[Comparison]:
    """One for each row of a record (memory_record.py)."""
    for row in record["rows"]:
        yield Comparison(
            model=row["model"],
            accelerator=row["accelerator"],
            setup=f"TP{row['tensor']} EP{row['expert']} {row['weights']}, batch {row['batch']}",
            ours=_planned_gib(row, record, catalog),
            theirs=row["gib"],
        )


def _planned_gib(
    row: Mapping[str, Any], record: Mapping[str, Any], catalog: Catalog
) -> dict[str, float]:
    architecture = catalog.models[row["model"]]
    layout = Layout(tensor=row["tensor"], expert=row["expert"])
    tokens = record["input_tokens"] + record["output_tokens"]
    memory = device_memory(
        architecture,
        catalog.accelerators[row["accelerator"]],
        layout=layout,
        precision=Precision(weights=row["weights"], kv=row["kv"]),
        max_len=tokens,
        max_num_seqs=row["batch"],
        max_batched_tokens=record["step_tokens"],
    )
    sequence = kv_bytes(
        architecture, tokens=tokens, bytes_per_value=KV_BYTES[row["kv"]], layout=layout
    )
    parts = {
        "weights": memory.weights_bytes - rotation_bytes(architecture),  # theirs has none
        "activations": memory.activations_bytes,
        "kvcache": row["batch"] * sequence,
        "nccl": memory.communication_bytes,
        "others": memory.graphs_bytes + memory.runtime_bytes,
    }
    gib = {name: size / GIB for name, size in parts.items()}
    return gib | {"total": sum(gib.values())}


def _print_row(name: str, found: list[Comparison]) -> None:
    worst = max(found, key=lambda each: abs(each.error))
    close = sum(abs(each.error) <= 0.05 for each in found)
    middle = median(abs(each.error) for each in found)
    print(
        f"| {name} | {len(found)} | {middle:.1%} | {close} |"
        f" {worst.error:+.1%}: {worst.model} on {worst.accelerator}, {worst.setup} |"
    )


if __name__ == "__main__":
    main()
