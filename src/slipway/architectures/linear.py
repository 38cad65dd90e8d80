"""Layers with linear attention, and latent attention, in the spellings of config.json."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.config.catalog import LatentAttention, LinearAttention, attending_layers

from .keys import Keys

LINEAR = "linear_attention"


def none(_: Keys) -> LinearAttention | None:
    """Attention in every layer."""
    return None


def gated_delta_net(text: Keys) -> LinearAttention | None:
    """Qwen3-Next and Qwen3.5."""
    layers = text.number("num_hidden_layers")
    every = text.optional("full_attention_interval") or 4
    kinds = text.names("layer_types") or [
        "full_attention" if (layer + 1) % every == 0 else LINEAR for layer in range(layers)
    ]
    attending = [layer for layer, kind in enumerate(kinds) if kind != LINEAR]
    return LinearAttention(
        layers=layers - _evenly_spread(text, attending, "layer_types"),
        key_heads=text.number("linear_num_key_heads"),
        value_heads=text.number("linear_num_value_heads"),
        key_dimensions=text.number("linear_key_head_dim"),
        value_dimensions=text.number("linear_value_head_dim"),
        convolution=text.number("linear_conv_kernel_dim"),
        # vLLM keeps the state in this dtype (vllm/model_executor/models/config.py).
        state_bytes=4 if text.get("mamba_ssm_dtype") == "float32" else 2,
    )


def kimi_delta_attention(text: Keys) -> LinearAttention | None:
    """Kimi Linear, whose own file counts layers from 1. vLLM keeps the state in 32 bits
    (kda_state_dtype in vllm/model_executor/layers/mamba/mamba_utils.py)."""
    own, layers = text.below("linear_attn_config"), text.number("num_hidden_layers")
    kinds = text.names("layer_types")
    listed = own.numbers("full_attn_layers")
    attending = [layer for layer, kind in enumerate(kinds) if kind != LINEAR]
    attending = attending or [layer - 1 for layer in listed]
    heads = own.optional("num_heads") or text.number("linear_num_heads")
    dimensions = own.optional("head_dim") or text.number("linear_head_dim")
    return LinearAttention(
        layers=layers - _evenly_spread(text, attending, "linear_attn_config.full_attn_layers"),
        key_heads=heads,
        value_heads=heads,
        key_dimensions=dimensions,
        value_dimensions=dimensions,
        convolution=own.optional("short_conv_kernel_size") or text.number("linear_conv_kernel_dim"),
        state_bytes=4,
        gate_rank=dimensions,
    )


def _evenly_spread(text: Keys, attending: Sequence[int], key: str) -> int:
    """How many layers have attention; where they are decides what a pipeline stage holds."""
    layers = text.number("num_hidden_layers")
    if not attending or frozenset(attending) != attending_layers(layers, len(attending)):
        raise text.refusal(
            key,
            f"does not spread layers with attention evenly over {layers} layers up to the last one,"
            " which is not supported",
            value=list(attending),
            fix="use a model where it does",
        )
    return len(attending)


def latent_attention(text: Keys) -> LatentAttention:
    """DeepSeek-V2 and later, and Kimi."""
    return LatentAttention(
        kv_lora_rank=text.number("kv_lora_rank"),
        rope_dimensions=text.number("qk_rope_head_dim"),
        q_lora_rank=text.optional("q_lora_rank"),
        nope_dimensions=text.number("qk_nope_head_dim"),
        value_dimensions=text.number("v_head_dim"),
    )
