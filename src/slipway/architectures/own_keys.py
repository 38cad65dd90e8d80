"""What a config.json calls the facts of an architecture."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from slipway.config.errors import ConfigError
from slipway.config.validation import words

from .experts import COUNT, PER_TOKEN, SHARED
from .keys import Keys

# Fields by the name of their class. A fact with several spellings has the first that is written.
Spellings = tuple[str, ...]
_OWN: Mapping[str, Mapping[str, Spellings]] = {
    "Architecture": {
        "layers": ("num_hidden_layers",),
        "hidden": ("hidden_size",),
        "heads": ("num_attention_heads",),
        "kv_heads": ("num_key_value_heads", "num_attention_heads"),
        "head_dim": ("head_dim", "hidden_size"),
        "intermediate": ("intermediate_size_mlp", "intermediate_size", "moe_intermediate_size"),
        "vocabulary": ("vocab_size",),
        "context": ("max_position_embeddings",),
        "vision_parameters": ("vision_config",),
        "quantization_group": ("quantization_config",),
    },
    "MixtureOfExperts": {
        "count": COUNT,
        "per_token": PER_TOKEN,
        "intermediate": ("moe_intermediate_size", "intermediate_size"),
        "shared": (*SHARED, "shared_expert_intermediate_size"),
        "leading_dense_layers": ("first_k_dense_replace", "mlp_only_layers"),
        "every": ("decoder_sparse_step", "interleave_moe_layer_step"),
    },
    "LatentAttention": {
        "rope_dimensions": ("qk_rope_head_dim",),
        "nope_dimensions": ("qk_nope_head_dim",),
        "value_dimensions": ("v_head_dim",),
    },
    "LinearAttention": {
        "key_heads": ("linear_num_key_heads", "linear_attn_config", "linear_num_heads"),
        "value_heads": ("linear_num_value_heads", "linear_attn_config", "linear_num_heads"),
        "key_dimensions": ("linear_key_head_dim", "linear_attn_config", "linear_head_dim"),
        "value_dimensions": ("linear_value_head_dim", "linear_attn_config", "linear_head_dim"),
        "gate_rank": ("linear_attn_config", "linear_head_dim"),
        "convolution": ("linear_conv_kernel_dim", "linear_attn_config"),
        "layers": ("num_hidden_layers",),
    },
    "SlidingWindow": {"layers": ("num_hidden_layers",), "tokens": ("sliding_window",)},
}


def in_own_words(error: ValidationError, text: Keys) -> ConfigError:
    """The problem, named by the key of the file that caused it."""
    wrong = error.errors(include_url=False)[0]
    field = str(wrong["loc"][0])
    spellings = _OWN.get(error.title, {}).get(field, (field,))
    key = next((each for each in spellings if each in text.values), spellings[0])
    message, fix = words(wrong, (key,), None)
    return text.refusal(key, message, value=wrong["input"], fix=fix)
