"""The context that vLLM derives from a config.json."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .keys import Keys

# vllm/transformers_utils/model_arch_config_convertor.py, derive_max_model_len_and_key
LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")

# Kinds of rotary embeddings whose `factor` is in max_position_embeddings already
# (_get_and_verify_max_len in vllm/config/model.py).
ALREADY_SCALED = frozenset(
    {
        "default",
        "mrope",
        "su",
        "longrope",
        "llama3",
        "yarn",
        "deepseek_yarn",
        "deepseek_llama_scaling",
    }
)


def context_of(text: Keys, model_type: str) -> int:
    """The longest sequence in tokens that vLLM accepts: the shortest length that the file states,
    scaled by the rotary embedding. That of Gemma 3 is scaled already."""
    stated = [text.number(key) for key in LENGTH_KEYS if text.get(key) is not None]
    length = min(stated) if stated else text.number(LENGTH_KEYS[0])
    if model_type.startswith("gemma3"):
        return length
    factors = [factor for each in _rotations(text) if (factor := _factor(each)) is not None]
    factor = factors[-1] if factors else 1
    if not 0 < factor < math.inf:
        raise text.refusal(
            "rope_scaling.factor", "must be more than 0", value=factor, fix="correct the value"
        )
    return int(length * factor)


def _rotations(text: Keys) -> Iterator[Mapping[str, Any]]:
    """The parameters of each rotary embedding: one, or one per kind of layer."""
    found = text.get("rope_parameters") or text.get("rope_scaling") or {}
    if not isinstance(found, Mapping):
        raise text.refusal("rope_scaling", "must be a mapping", value=found, fix="correct it")
    nested = [each for each in found.values() if isinstance(each, Mapping)]
    yield from nested or [found]


def _factor(rotation: Mapping[str, Any]) -> float | None:
    kind = rotation.get("rope_type", rotation.get("type", "default"))
    factor = rotation.get("factor")
    if kind in ALREADY_SCALED or not isinstance(factor, int | float):
        return None
    return float(factor)
