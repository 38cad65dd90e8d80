"""Records aiconfigurator's figures for a GPU's memory, for the planner's cross-check.

    python3.11 -m venv /tmp/aic && /tmp/aic/bin/pip install -r bench/aiconfigurator/requirements.txt
    /tmp/aic/bin/python bench/aiconfigurator/memory_record.py [--out FILE]

Uses the memory formula of its vLLM backend, with 8,192 tokens in a step and sequences of 4,000 +
500 tokens. The batch is the largest that fits the GPU by that formula: the load at which the
estimate matters. Runs in aiconfigurator's own environment.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from aiconfigurator.sdk import common, config
from aiconfigurator.sdk.backends.factory import get_backend
from aiconfigurator.sdk.models import get_model

OUT = (
    Path(__file__).resolve().parents[2]
    / "tests/unit/planner/engines/vllm/aiconfigurator_memory.json"
)

INPUT_TOKENS, OUTPUT_TOKENS, STEP_TOKENS = 4000, 500, 8192
# catalog key -> systems/<name>.yaml
ACCELERATORS = {
    "A100-80": "a100_sxm",
    "H100-80": "h100_sxm",
    "H200": "h200_sxm",
    "B200": "b200_sxm",
    "L40S": "l40s",
}

# catalog key -> (its name in aiconfigurator, weights, (tensor, expert) layouts). Left out: models
# with windowed layers, whose KV cache the formula overestimates.
MODELS = {
    "qwen3-8b": ("Qwen/Qwen3-8B", ("bf16", "fp8"), ((1, 1), (2, 1))),
    "llama-3.1-8b": ("meta-llama/Meta-Llama-3.1-8B", ("bf16", "fp8"), ((1, 1), (2, 1))),
    "qwen3-32b": ("Qwen/Qwen3-32B", ("bf16", "fp8"), ((1, 1), (2, 1), (4, 1))),
    "llama-3.1-70b": ("meta-llama/Meta-Llama-3.1-70B", ("bf16", "fp8"), ((2, 1), (4, 1), (8, 1))),
    "llama-3.1-405b": ("meta-llama/Meta-Llama-3.1-405B", ("bf16", "fp8"), ((8, 1),)),
    "qwen3-30b-a3b": ("Qwen/Qwen3-30B-A3B", ("bf16", "fp8"), ((1, 1), (2, 1), (4, 4))),
    "qwen3-235b-a22b": ("Qwen/Qwen3-235B-A22B", ("bf16", "fp8"), ((4, 4), (8, 8))),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", ("fp8-block",), ((8, 1), (8, 8))),
}
QUANTIZATIONS = {
    "bf16": (common.GEMMQuantMode.float16, common.MoEQuantMode.float16),
    "fp8": (common.GEMMQuantMode.fp8, common.MoEQuantMode.fp8),
    "fp8-block": (common.GEMMQuantMode.fp8_block, common.MoEQuantMode.fp8_block),
}
KV_CACHES = {"bf16": common.KVCacheQuantMode.float16, "fp8": common.KVCacheQuantMode.fp8}


@dataclass(frozen=True, kw_only=True)
class Question:
    model: str
    accelerator: str
    tensor: int
    expert: int
    weights: str
    kv: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = list(_rows())
    document = {
        "aiconfigurator": importlib.metadata.version("aiconfigurator"),
        "recorded": datetime.date.today().isoformat(),
        "input_tokens": INPUT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
        "step_tokens": STEP_TOKENS,
    }
    # One line per row, so that diffs are readable.
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps(document)[:-1]
    arguments.out.write_text(f'{head}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"aiconfigurator {document['aiconfigurator']}, {document['recorded']}: {len(rows)} rows")


def _rows() -> Iterator[dict[str, Any]]:
    for accelerator, system in ACCELERATORS.items():
        path = resources.files("aiconfigurator") / "systems" / f"{system}.yaml"
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
        for question in _questions(accelerator):
            answer = _answer(question, spec)
            if answer is not None:
                yield asdict(question) | answer


def _questions(accelerator: str) -> Iterator[Question]:
    for model, (_, schemes, layouts) in MODELS.items():
        for weights, (tensor, expert) in product(schemes, layouts):
            yield Question(
                model=model,
                accelerator=accelerator,
                tensor=tensor,
                expert=expert,
                weights=weights,
                kv="bf16" if weights == "bf16" else "fp8",
            )


def _answer(question: Question, spec: dict[str, Any]) -> dict[str, Any] | None:
    """The batch, and GiB per GPU by part. None if not even one sequence fits.

    Each further sequence costs only its KV cache.
    """
    model = _model(question)
    capacity_gib = spec["gpu"]["mem_capacity"] / 2**30
    one = _memory_gib(model, spec, batch=1)
    if one["total"] > capacity_gib:
        return None
    batch = 1 + math.floor((capacity_gib - one["total"]) / one["kvcache"])
    gib = _memory_gib(model, spec, batch)
    return {"batch": batch, "gib": {part: round(size, 4) for part, size in gib.items()}}


def _memory_gib(model: Any, spec: dict[str, Any], batch: int) -> dict[str, float]:
    return get_backend("vllm")._get_memory_usage(
        model,
        SimpleNamespace(system_spec=spec),
        batch_size=batch,
        beam_width=1,
        isl=INPUT_TOKENS,
        osl=OUTPUT_TOKENS,
        num_tokens=STEP_TOKENS,
    )


def _model(question: Question) -> Any:
    gemm, moe = QUANTIZATIONS[question.weights]
    return get_model(
        MODELS[question.model][0],
        config.ModelConfig(
            tp_size=question.tensor,
            gemm_quant_mode=gemm,
            moe_quant_mode=moe,
            kvcache_quant_mode=KV_CACHES[question.kv],
            fmha_quant_mode=common.FMHAQuantMode.float16,
            moe_tp_size=question.tensor // question.expert,
            moe_ep_size=question.expert,
        ),
        "vllm",
    )


if __name__ == "__main__":
    main()
