"""Which layers keep a sliding window only.

`layer_types` says it where it is written, else the rule of the model's kind, as transformers'
configuration classes have it.
"""

from __future__ import annotations

from collections.abc import Callable

from slipway.config.catalog import SlidingWindow

from .keys import Keys

# Llama 4 computes most layers in chunks, but vLLM keeps all their tokens: it turns the hybrid KV
# cache off for chunks (VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE in vllm/config/vllm.py).
KEEPS_ALL_TOKENS = frozenset({"full_attention", "attention", "linear_attention"})
SLIDING = "sliding_attention"

Windows = Callable[[Keys], SlidingWindow | None]


def no_layer(text: Keys) -> SlidingWindow | None:
    """Of kinds without windows. Raises ConfigError where one is asked for."""
    if text.flag("use_sliding_window"):
        raise text.refusal(
            "use_sliding_window",
            "is not supported for this model_type",
            value=True,
            fix="use a model with false",
        )
    return None


def chunks(_: Keys) -> SlidingWindow | None:
    """Llama 4."""
    return None


def every_layer(text: Keys) -> SlidingWindow | None:
    """Mistral, Mixtral and Phi-3: all layers, where a window is set."""
    return _of(text, text.number("num_hidden_layers"))


def all_but_every(pattern: int) -> Windows:
    """Gemma and gpt-oss: all layers but every `pattern`-th."""

    def windows(text: Keys) -> SlidingWindow | None:
        every = text.optional("sliding_window_pattern") or pattern
        layers = text.number("num_hidden_layers")
        return _of(text, _listed(text, layers - layers // every))

    return windows


def upper_layers(text: Keys) -> SlidingWindow | None:
    """Qwen: the layers from `max_window_layers` on, where `use_sliding_window` is set."""
    if not text.flag("use_sliding_window"):
        return None
    layers = text.number("num_hidden_layers")
    first = text.number("max_window_layers", least=0)
    return _of(text, _listed(text, max(0, layers - first)))


def _listed(text: Keys, by_rule: int) -> int:
    """How many layers `layer_types` gives a window, else the number by rule."""
    kinds = text.names("layer_types")
    if not kinds:
        return by_rule
    for kind in kinds:
        if kind not in {*KEEPS_ALL_TOKENS, SLIDING}:
            raise text.refusal(
                "layer_types",
                "has a kind of layer that is not supported",
                value=kind,
                fix=f"use a model with {SLIDING} and full_attention only",
            )
    return kinds.count(SLIDING)


def _of(text: Keys, layers: int) -> SlidingWindow | None:
    tokens = text.optional("sliding_window", least=0)
    return SlidingWindow(layers=layers, tokens=tokens) if tokens and layers else None
