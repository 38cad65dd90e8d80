"""config.json files for tests: small, and complete enough to be read."""

from __future__ import annotations

import datetime
from typing import Any

from slipway.architectures.architecture import architecture_of
from slipway.config.catalog import Architecture

DATE = datetime.date(2026, 11, 26)

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
QWEN_MOE: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
DEEPSEEK: dict[str, Any] = {
    **LLAMA,
    "model_type": "deepseek_v3",
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
QWEN_NEXT: dict[str, Any] = {**QWEN_MOE, "model_type": "qwen3_next", "num_hidden_layers": 8}
LLAMA_4: dict[str, Any] = {
    **LLAMA,
    "model_type": "llama4_text",
    "intermediate_size": 32,
    "intermediate_size_mlp": 256,
    "num_local_experts": 8,
    "interleave_moe_layer_step": 2,
}


def read(config: dict[str, Any], **changes: Any) -> Architecture:
    """The architecture of a file with `changes`."""
    return architecture_of(config | changes, source="config.json", date=DATE)
