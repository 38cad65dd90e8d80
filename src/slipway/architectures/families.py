"""The kinds of models whose config.json can be read: what each is built of.

A kind is here only if its parameters are counted exactly: tests/unit/architectures/test_counts.py
checks them against transformers. `defaults` are those of transformers' configuration classes for
keys that a file may leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from slipway.config.catalog import LayerPart, LinearAttention, MixtureOfExperts

from . import experts, linear, vision, windows
from .keys import Keys

Defaults = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one `model_type` is built.

    `parts` are always there; those in `switches` where their key is true. Keys in `only` must have
    that value. In a family with `vision`, the text model's keys are in `text_config`, or at the top
    of the file.
    """

    defaults: Defaults
    parts: tuple[LayerPart, ...] = ()
    switches: Mapping[str, tuple[LayerPart, ...]] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)
    intermediate: tuple[str, ...] = ("intermediate_size",)
    latent: bool = False
    windows: windows.Windows = windows.no_layer
    experts: Callable[[Keys], MixtureOfExperts | None] = experts.none
    linear: Callable[[Keys], LinearAttention | None] = linear.none
    vision: vision.Vision | None = None


ALL_BIASES: tuple[LayerPart, ...] = ("qkv_bias", "output_bias")
ATTENTION_BIAS: Mapping[str, tuple[LayerPart, ...]] = {"attention_bias": ALL_BIASES}
LLAMA_BIASES: Mapping[str, tuple[LayerPart, ...]] = {**ATTENTION_BIAS, "mlp_bias": ("mlp_bias",)}
GLM_BIAS: Mapping[str, tuple[LayerPart, ...]] = {"attention_bias": ("qkv_bias",)}
NO_BIAS: Mapping[str, Any] = {"attention_bias": False}

_LLAMA = Family(
    defaults={
        "vocab_size": 32000,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
    switches=LLAMA_BIASES,
)
_MISTRAL = Family(
    defaults={
        "vocab_size": 32000,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "sliding_window": 4096,
    },
    windows=windows.every_layer,
)
_QWEN2 = Family(
    defaults={
        "vocab_size": 151936,
        "intermediate_size": 22016,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
    parts=("qkv_bias",),
    windows=windows.upper_layers,
)
_QWEN3 = replace(
    _QWEN2,
    defaults={**_QWEN2.defaults, "head_dim": 128},
    parts=("qk_norm",),
    switches=ATTENTION_BIAS,
)
_GEMMA = Family(
    defaults={
        "vocab_size": 256000,
        "intermediate_size": 24576,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    switches=ATTENTION_BIAS,
)
_GEMMA2 = replace(
    _GEMMA,
    defaults={
        **_GEMMA.defaults,
        "intermediate_size": 9216,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "sliding_window": 4096,
    },
    parts=("post_norms",),
    windows=windows.all_but_every(2),
)
_GEMMA3 = replace(
    _GEMMA2,
    defaults={**_GEMMA2.defaults, "vocab_size": 262208, "max_position_embeddings": 131072},
    parts=("post_norms", "qk_norm"),
    windows=windows.all_but_every(6),
)
_GLM = Family(
    defaults={
        "vocab_size": 151552,
        "intermediate_size": 13696,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "attention_bias": True,
    },
    switches=GLM_BIAS,
)
_PHI = Family(
    defaults={
        "vocab_size": 51200,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_key_value_heads": None,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    },
    parts=(*ALL_BIASES, "plain_mlp", "mlp_bias", "parallel_mlp", "norm_bias", "logits_bias"),
    only={"qk_layernorm": False},
)
_QWEN3_MOE = Family(
    defaults={
        "vocab_size": 151936,
        "intermediate_size": 6144,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "decoder_sparse_step": 1,
    },
    parts=("qk_norm",),
    switches=ATTENTION_BIAS,
    # These kinds have no shared experts (vllm/model_executor/models/qwen3_moe.py).
    only={"shared_expert_intermediate_size": 0},
    experts=experts.every_few_layers,
)
_QWEN3_NEXT = Family(
    defaults={
        "vocab_size": 151936,
        "intermediate_size": 5632,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "decoder_sparse_step": 1,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
    },
    parts=("qk_norm", "attention_gate", "shared_expert_gate"),
    only={**NO_BIAS, "attn_output_gate": True},
    experts=experts.every_few_layers,
    linear=linear.gated_delta_net,
)
_QWEN3_5 = replace(
    _QWEN3_NEXT,
    defaults={
        **_QWEN3_NEXT.defaults,
        "vocab_size": 248320,
        "intermediate_size": 12288,
        "num_key_value_heads": 4,
    },
    parts=("qk_norm", "attention_gate"),
    experts=experts.none,
    vision=vision.qwen3_5,
)
_QWEN3_5_MOE = replace(
    _QWEN3_NEXT,
    defaults={
        **_QWEN3_NEXT.defaults,
        "vocab_size": 248320,
        "num_experts": 256,
        "num_experts_per_tok": 8,
    },
    # There is no plain MLP: every layer has experts.
    intermediate=("intermediate_size", "moe_intermediate_size"),
    vision=vision.qwen3_5,
)
_DEEPSEEK_V3 = Family(
    defaults={
        "vocab_size": 129280,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    },
    only=NO_BIAS,
    latent=True,
    experts=experts.after_dense_layers,
)
_QWEN2_VL = replace(
    _QWEN2,
    defaults={
        "vocab_size": 152064,
        "intermediate_size": 29568,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
        "sliding_window": 4096,
        "max_window_layers": 80,
    },
)
_LLAMA4 = Family(
    defaults={
        "vocab_size": 202048,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "num_experts_per_tok": 1,
        "num_local_experts": 16,
        "interleave_moe_layer_step": 1,
    },
    switches=ATTENTION_BIAS,
    intermediate=("intermediate_size_mlp",),
    windows=windows.chunks,
    experts=experts.interleaved,
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": _LLAMA,
        "mistral": _MISTRAL,
        "granite": _LLAMA,
        "phi3": replace(
            _LLAMA,
            defaults={
                **_LLAMA.defaults,
                "vocab_size": 32064,
                "intermediate_size": 8192,
                "max_position_embeddings": 4096,
            },
            switches={},
            windows=windows.every_layer,
        ),
        "seed_oss": replace(
            _LLAMA,
            defaults={
                **_GLM.defaults,
                "vocab_size": 155136,
                "intermediate_size": 27648,
                "num_attention_heads": 80,
                "num_key_value_heads": 8,
                "max_position_embeddings": 524288,
            },
            switches={
                "attention_bias": ("qkv_bias",),
                "attention_out_bias": ("output_bias",),
                "mlp_bias": ("mlp_bias",),
            },
        ),
        "smollm3": replace(
            _LLAMA,
            defaults={
                "vocab_size": 128256,
                "intermediate_size": 11008,
                "num_attention_heads": 16,
                "num_key_value_heads": 4,
                "max_position_embeddings": 32768,
                "tie_word_embeddings": True,
            },
        ),
        "starcoder2": Family(
            defaults={
                "vocab_size": 49152,
                "intermediate_size": 12288,
                "num_attention_heads": 24,
                "num_key_value_heads": 2,
                "max_position_embeddings": 4096,
                "tie_word_embeddings": True,
                "use_bias": True,
            },
            parts=("plain_mlp", "norm_bias"),
            switches={"use_bias": (*ALL_BIASES, "mlp_bias")},
            windows=windows.every_layer,
        ),
        "phi": _PHI,
        "qwen2": _QWEN2,
        "qwen2_vl": replace(_QWEN2_VL, vision=vision.qwen2_vl),
        "qwen2_5_vl": replace(_QWEN2_VL, vision=vision.qwen2_5_vl),
        "qwen3": _QWEN3,
        "qwen3_vl": replace(
            _QWEN3,
            defaults={**_QWEN3.defaults, "max_position_embeddings": 128000},
            windows=windows.no_layer,
            vision=vision.qwen3_vl,
        ),
        "gemma": _GEMMA,
        "gemma2": _GEMMA2,
        "gemma3_text": _GEMMA3,
        "gemma3": replace(_GEMMA3, vision=vision.siglip),
        "glm": _GLM,
        "glm4": replace(_GLM, parts=("post_norms",)),
        "mixtral": replace(
            _MISTRAL,
            defaults={
                **_MISTRAL.defaults,
                "sliding_window": None,
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
            },
            experts=experts.every_layer,
        ),
        "granitemoe": replace(
            _LLAMA,
            defaults={**_LLAMA.defaults, "num_local_experts": 8, "num_experts_per_tok": 2},
            switches=ATTENTION_BIAS,
            experts=experts.every_layer,
        ),
        "gpt_oss": Family(
            defaults={
                "vocab_size": 201088,
                "intermediate_size": 2880,
                "num_attention_heads": 64,
                "num_key_value_heads": 8,
                "head_dim": 64,
                "max_position_embeddings": 131072,
                "tie_word_embeddings": False,
                "sliding_window": 128,
                "num_local_experts": 128,
                "num_experts_per_tok": 4,
                "attention_bias": True,
            },
            parts=("attention_sinks", "router_bias", "expert_bias"),
            switches=ATTENTION_BIAS,
            windows=windows.all_but_every(2),
            experts=experts.every_layer,
        ),
        "qwen2_moe": replace(
            _QWEN3_MOE,
            defaults={
                **_QWEN3_MOE.defaults,
                "intermediate_size": 5632,
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "num_experts": 60,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1408,
                "shared_expert_intermediate_size": 5632,
                "qkv_bias": True,
            },
            parts=("shared_expert_gate",),
            switches={"qkv_bias": ("qkv_bias",)},
            only={},
        ),
        "qwen3_moe": _QWEN3_MOE,
        "qwen3_vl_moe": replace(
            _QWEN3_MOE,
            defaults={
                **_QWEN3_MOE.defaults,
                "intermediate_size": 5632,
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "max_position_embeddings": 128000,
                "num_experts": 60,
                "num_experts_per_tok": 4,
                "moe_intermediate_size": 1408,
            },
            vision=vision.qwen3_vl,
        ),
        "qwen3_next": _QWEN3_NEXT,
        "qwen3_5": _QWEN3_5,
        "qwen3_5_text": replace(_QWEN3_5, vision=None),
        "qwen3_5_moe": _QWEN3_5_MOE,
        "qwen3_5_moe_text": replace(_QWEN3_5_MOE, vision=None),
        "deepseek_v2": replace(
            _DEEPSEEK_V3,
            defaults={
                **_DEEPSEEK_V3.defaults,
                "vocab_size": 102400,
                "intermediate_size": 11008,
                "moe_intermediate_size": 1407,
                "num_attention_heads": 32,
                "num_key_value_heads": None,
                "max_position_embeddings": 2048,
                "n_routed_experts": 64,
                "n_shared_experts": 2,
                "num_experts_per_tok": None,
                "first_k_dense_replace": 0,
            },
            only={**NO_BIAS, "mlp_bias": False},
        ),
        "deepseek_v3": _DEEPSEEK_V3,
        "kimi_k2": _DEEPSEEK_V3,
        "kimi_linear": replace(
            _DEEPSEEK_V3,
            defaults={
                **_DEEPSEEK_V3.defaults,
                "vocab_size": 163840,
                "intermediate_size": 9216,
                "moe_intermediate_size": 1024,
                "num_attention_heads": 32,
                "num_key_value_heads": 32,
                "max_position_embeddings": 1048576,
                "first_k_dense_replace": 1,
                "q_lora_rank": None,
                "linear_conv_kernel_dim": 4,
                "linear_head_dim": 128,
                "linear_num_heads": 32,
            },
            linear=linear.kimi_delta_attention,
        ),
        "glm4_moe": Family(
            defaults={
                "vocab_size": 151552,
                "intermediate_size": 10944,
                "moe_intermediate_size": 1408,
                "num_attention_heads": 96,
                "num_key_value_heads": 8,
                "max_position_embeddings": 131072,
                "tie_word_embeddings": False,
                "n_routed_experts": 128,
                "n_shared_experts": 1,
                "num_experts_per_tok": 8,
                "first_k_dense_replace": 1,
            },
            switches={**GLM_BIAS, "use_qk_norm": ("qk_norm",)},
            experts=experts.after_dense_layers,
        ),
        "llama4_text": _LLAMA4,
        "llama4": replace(_LLAMA4, vision=vision.llama4),
    }
)
