"""Records aiconfigurator's figures for single forward passes, for the planner's cross-check.

    python -m venv /tmp/aic && /tmp/aic/bin/pip install -r bench/aiconfigurator/requirements.txt
    /tmp/aic/bin/python bench/aiconfigurator/latency_record.py [--out FILE]

Asks its static context pass (one prompt, nothing cached), its static generation step (a batch,
every sequence at the same context) and its aggregated estimate (continuous batching at a fixed
concurrency, with its own empirical correction of the TTFT for queueing) of the vLLM backend.
Runs in aiconfigurator's own environment.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from aiconfigurator.sdk import common, config
from aiconfigurator.sdk.backends.factory import get_backend
from aiconfigurator.sdk.inference_session import InferenceSession
from aiconfigurator.sdk.models import get_model
from aiconfigurator.sdk.perf_database import get_database

OUT = (
    Path(__file__).resolve().parents[2]
    / "tests/unit/planner/engines/vllm/latency/aiconfigurator_latency.json"
)

# catalog key -> (database, version of vLLM it was measured with, has FP8)
ACCELERATORS = {
    "H100-80": ("h100_sxm", "0.14.0", True),
    "A100-80": ("a100_sxm", "0.14.0", False),
    "L40S": ("l40s", "0.14.0", True),
    "H200": ("h200_sxm", "0.12.0", True),
    "B200": ("b200_sxm", "0.14.0", True),
}
FULL = 0.8  # share of the memory that weights may fill
GIGABYTES = {"H100-80": 80, "A100-80": 80, "L40S": 46, "H200": 141, "B200": 180}

TUNING_ACCELERATORS = ("H100-80", "A100-80", "L40S")
TUNING_MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "qwen3-30b-a3b",
    "mixtral-8x7b",
)
RULE = (
    f"tuning: the models {', '.join(TUNING_MODELS)} on {', '.join(TUNING_ACCELERATORS)}; held out: "
    "every other model, on every accelerator. No model is on both sides, and H200 and B200 have no "
    "tuning row."
)

PROMPTS = (256, 1024, 4096, 8192)  # tokens of one prompt
SERVING = (32, 1024, 256)  # sequences, input and output tokens of the aggregated estimate
DECODES = ((1, 1024), (8, 1024), (32, 2048), (64, 1024), (64, 4096), (128, 1024))  # x context


@dataclass(frozen=True, kw_only=True)
class Model:
    """`billions` of parameters decide where it fits; a layout is (tensor, pipeline, expert)."""

    billions: int
    layouts: tuple[tuple[int, int, int], ...]
    published: str = ""  # its name in aiconfigurator
    config: Mapping[str, Any] = field(default_factory=dict)  # or its config.json


def _config(
    architecture: str,
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    intermediate: int,
    vocabulary: int,
) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "max_position_embeddings": 32768,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 128,
        "intermediate_size": intermediate,
        "vocab_size": vocabulary,
    }


def _qwen2(layers: int, hidden: int, heads: int, kv_heads: int, intermediate: int) -> Any:
    return _config(
        "Qwen2ForCausalLM",
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        intermediate=intermediate,
        vocabulary=152064,
    )


def _mistral(architecture: str, vocabulary: int) -> Any:
    return _config(
        architecture,
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        intermediate=14336,
        vocabulary=vocabulary,
    )


def _tensor(*degrees: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((degree, 1, 1) for degree in degrees)


# By catalog key. phi-4 is absent: the databases have no attention with 10 KV heads.
MODELS: Mapping[str, Model] = {
    "llama-3.1-8b": Model(
        published="meta-llama/Meta-Llama-3.1-8B", billions=8, layouts=_tensor(1, 2, 4)
    ),
    "llama-3.1-70b": Model(
        published="meta-llama/Meta-Llama-3.1-70B", billions=71, layouts=_tensor(2, 4, 8)
    ),
    "llama-3.1-405b": Model(
        published="meta-llama/Meta-Llama-3.1-405B",
        billions=406,
        layouts=(*_tensor(8), (8, 2, 1)),
    ),
    "qwen3-30b-a3b": Model(
        published="Qwen/Qwen3-30B-A3B", billions=31, layouts=(*_tensor(1, 2, 4), (4, 1, 4))
    ),
    "mixtral-8x7b": Model(
        config=_mistral("MixtralForCausalLM", 32000)
        | {"num_local_experts": 8, "num_experts_per_tok": 2},
        billions=47,
        layouts=_tensor(2, 4),
    ),
    "mistral-7b": Model(
        config=_mistral("LlamaForCausalLM", 32768), billions=7, layouts=_tensor(1, 2)
    ),
    "qwen2.5-7b": Model(
        config=_qwen2(28, 3584, 28, 4, 18944), billions=8, layouts=_tensor(1, 2, 4)
    ),
    "qwen2.5-32b": Model(
        config=_qwen2(64, 5120, 40, 8, 27648), billions=33, layouts=_tensor(1, 2, 4, 8)
    ),
    "qwen2.5-72b": Model(
        config=_qwen2(80, 8192, 64, 8, 29568),
        billions=73,
        layouts=(*_tensor(2, 4, 8), (4, 2, 1)),
    ),
    "qwen3-8b": Model(published="Qwen/Qwen3-8B", billions=8, layouts=_tensor(1, 2)),
    "qwen3-32b": Model(published="Qwen/Qwen3-32B", billions=33, layouts=_tensor(1, 2, 4)),
    "qwen3-235b-a22b": Model(
        published="Qwen/Qwen3-235B-A22B", billions=235, layouts=(*_tensor(8), (8, 1, 8))
    ),
    "deepseek-v3": Model(
        published="deepseek-ai/DeepSeek-V3", billions=671, layouts=(*_tensor(8), (8, 1, 8))
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--parts", action="store_true", help="also record each operation's time")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for case in _cases() for row in _rows(case, Path(folder), arguments.parts)]
    document = {
        "tool": f"aiconfigurator {importlib.metadata.version('aiconfigurator')}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "databases": {
            key: f"{name} / vllm {version}" for key, (name, version, _) in ACCELERATORS.items()
        },
        "prefill_ms": "one static context pass by tokens of the prompt; batch 1, nothing cached",
        "decode_ms": "one static generation step by sequences x context; KV in bf16",
        "serving": "aggregated estimate at {} sequences of {} + {} tokens".format(*SERVING),
        "rule": RULE,
        "rows": rows,
    }
    arguments.out.write_text(_one_row_a_line(document), "utf-8")
    print(f"{document['tool']}, {document['date']}: {len(rows)} configurations in {arguments.out}")


def _cases() -> Iterator[dict[str, Any]]:
    """Every model x accelerator x precision x layout that fits and is on one of the two sides."""
    for (key, model), (accelerator, (_, _, has_fp8)) in product(
        MODELS.items(), ACCELERATORS.items()
    ):
        tuning = key in TUNING_MODELS
        if tuning and accelerator not in TUNING_ACCELERATORS:
            continue
        for weights, layout in product(("bf16", "fp8") if has_fp8 else ("bf16",), model.layouts):
            tensor, pipeline, expert = layout
            gigabytes = model.billions * (1 if weights == "fp8" else 2) / (tensor * pipeline)
            if gigabytes <= FULL * GIGABYTES[accelerator]:
                yield {
                    "side": "tuning" if tuning else "held out",
                    "model": key,
                    "accelerator": accelerator,
                    "weights": weights,
                    "tensor": tensor,
                    "pipeline": pipeline,
                    "expert": expert,
                }


def _rows(case: dict[str, Any], folder: Path, parts: bool) -> list[dict[str, Any]]:
    """The case with its times; None if the database lacks one of its operations."""
    session = _session(case, folder)
    prefill = _answers(case, {str(n): partial(_prefill, session, n) for n in PROMPTS})
    decode = _answers(case, {f"{b}x{c}": partial(_decode, session, b, c) for b, c in DECODES})
    if not prefill and not decode:
        return []
    serving = _answers(case, {"aggregated": partial(_serving, session)}).get("aggregated", {})
    row = {
        **case,
        "prefill_ms": _totals(prefill),
        "decode_ms": _totals(decode),
        "serving": {name: round(value, 4) for name, value in serving.items()},
    }
    return [row | ({"parts": {"prefill": prefill, "decode": decode}} if parts else {})]


def _answers(
    case: Mapping[str, Any], questions: Mapping[str, Callable[[], dict[str, float]]]
) -> dict[str, dict[str, float]]:
    """Milliseconds by operation for every question; empty if the database lacks an operation."""
    try:
        return {name: question() for name, question in questions.items()}
    except Exception as error:  # whatever the tool raises: the case is named, not hidden
        asked = ", ".join(questions)
        print(f"no answer: {_name(case)}, {asked}: {type(error).__name__}: {str(error)[:120]}")
        return {}


def _totals(answers: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {name: round(sum(parts.values()), 4) for name, parts in answers.items()}


def _session(case: Mapping[str, Any], folder: Path) -> InferenceSession:
    name, version, _ = ACCELERATORS[case["accelerator"]]
    fp8 = case["weights"] == "fp8"
    model_config = config.ModelConfig(
        tp_size=case["tensor"],
        pp_size=case["pipeline"],
        gemm_quant_mode=common.GEMMQuantMode.fp8 if fp8 else common.GEMMQuantMode.float16,
        moe_quant_mode=common.MoEQuantMode.fp8 if fp8 else common.MoEQuantMode.float16,
        kvcache_quant_mode=common.KVCacheQuantMode.float16,
        fmha_quant_mode=common.FMHAQuantMode.float16,
        moe_tp_size=case["tensor"] // case["expert"],
        moe_ep_size=case["expert"],
    )
    model = get_model(_model_path(case["model"], folder), model_config, "vllm")
    _widen_narrow_routers(model)
    return InferenceSession(model, get_database(name, "vllm", version), get_backend("vllm"))


def _widen_narrow_routers(model: Any) -> None:
    """The databases have no GEMM with fewer than 32 columns: a router to 8 experts counts as 32."""
    for operation in (*model.context_ops, *model.generation_ops):
        if operation._name.endswith("router_gemm"):
            operation._n = max(32, operation._n)


def _model_path(key: str, folder: Path) -> str:
    """A name known to the tool, or a folder with the model's config.json."""
    model = MODELS[key]
    if model.published:
        return model.published
    (folder / key).mkdir(exist_ok=True)
    (folder / key / "config.json").write_text(json.dumps(dict(model.config)), "utf-8")
    return str(folder / key)


def _prefill(session: InferenceSession, tokens: int) -> dict[str, float]:
    runtime = config.RuntimeConfig(batch_size=1, isl=tokens, osl=1)
    context, *_ = session._backend._run_static_breakdown(
        session._model, session._database, runtime, "static_ctx"
    )
    return dict(context)


def _decode(session: InferenceSession, batch: int, context: int) -> dict[str, float]:
    runtime = config.RuntimeConfig(batch_size=batch, isl=context - 1, osl=2)
    _, _, generation, _ = session._backend._run_static_breakdown(
        session._model, session._database, runtime, "static_gen"
    )
    return dict(generation)


def _serving(session: InferenceSession) -> dict[str, float]:
    sequences, input_tokens, output_tokens = SERVING
    runtime = config.RuntimeConfig(batch_size=sequences, isl=input_tokens, osl=output_tokens)
    summary = session.run_agg(runtime, ctx_tokens=input_tokens).get_summary_df().iloc[0]
    columns = {"requests_per_s": "seq/s", "ttft_ms": "ttft", "tpot_ms": "tpot"}
    return {name: float(summary[column]) for name, column in columns.items()}


def _name(case: Mapping[str, Any]) -> str:
    return (
        f"{case['model']} {case['weights']} on {case['accelerator']} "
        f"tp{case['tensor']} pp{case['pipeline']} ep{case['expert']}"
    )


def _one_row_a_line(document: Mapping[str, Any]) -> str:
    """JSON with one configuration per line, so that diffs of recordings are readable."""
    head = json.dumps({key: value for key, value in document.items() if key != "rows"}, indent=2)
    rows = ",\n    ".join(json.dumps(row) for row in document["rows"])
    return f'{head[:-2]},\n  "rows": [\n    {rows}\n  ]\n}}\n'


if __name__ == "__main__":
    main()
