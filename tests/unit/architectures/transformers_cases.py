"""The models of transformers that the reader of config.json is compared with: those of the classes'
defaults with fewer layers, and variants of what can differ."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]

SHALLOW = {"num_hidden_layers": 6}
SMALL = {"num_hidden_layers": 6, "hidden_size": 512, "num_attention_heads": 8}
FEW_EXPERTS = {**SHALLOW, "num_experts": 8}
HYBRID = {"num_hidden_layers": 8, "hidden_size": 1024}
KIMI = {
    "num_hidden_layers": 27,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [layer for layer in range(1, 27) if layer % 4],
        "head_dim": 64,
        "num_heads": 16,
        "short_conv_kernel_size": 4,
    },
}
LATENT = {"num_hidden_layers": 6, "n_routed_experts": 16}

# Name of the case: model type, values.
TEXT: dict[str, tuple[str, Values]] = {
    "llama": ("llama", SHALLOW),
    "llama with biases": ("llama", {**SHALLOW, "attention_bias": True, "mlp_bias": True}),
    "llama with wide heads": ("llama", {**SMALL, "head_dim": 128, "num_key_value_heads": 2}),
    "llama tied": ("llama", {**SMALL, "tie_word_embeddings": True}),
    "mistral": ("mistral", SHALLOW),
    "granite": ("granite", {**SHALLOW, "attention_bias": True, "mlp_bias": True}),
    "granitemoe": ("granitemoe", {**SMALL, "intermediate_size": 128}),
    "phi": ("phi", SHALLOW),
    "phi3": ("phi3", SHALLOW),
    "seed_oss": ("seed_oss", SHALLOW),
    "seed_oss with biases": (
        "seed_oss",
        {**SHALLOW, "attention_bias": False, "attention_out_bias": True, "mlp_bias": True},
    ),
    "smollm3": ("smollm3", SHALLOW),
    "starcoder2": ("starcoder2", SHALLOW),
    "starcoder2 without biases": ("starcoder2", {**SHALLOW, "use_bias": False}),
    "qwen2": ("qwen2", SHALLOW),
    "qwen2 with windows": (
        "qwen2",
        {**SHALLOW, "use_sliding_window": True, "max_window_layers": 4},
    ),
    "qwen3": ("qwen3", SHALLOW),
    "qwen3 with biases": ("qwen3", {**SHALLOW, "attention_bias": True}),
    "gemma": ("gemma", SHALLOW),
    "gemma2": ("gemma2", SHALLOW),
    "gemma3_text": ("gemma3_text", {**SHALLOW, "num_hidden_layers": 8}),
    "glm": ("glm", SHALLOW),
    "glm4": ("glm4", SHALLOW),
    "mixtral": ("mixtral", SHALLOW),
    "gpt_oss": ("gpt_oss", {**SHALLOW, "num_local_experts": 8}),
    "qwen2_moe": ("qwen2_moe", {**FEW_EXPERTS, "mlp_only_layers": [0]}),
    "qwen2_moe without biases": ("qwen2_moe", {**FEW_EXPERTS, "qkv_bias": False}),
    "qwen3_moe": ("qwen3_moe", FEW_EXPERTS),
    "qwen3_moe with steps": ("qwen3_moe", {**FEW_EXPERTS, "decoder_sparse_step": 2}),
    "qwen3_next": ("qwen3_next", {**HYBRID, "num_experts": 16}),
    "qwen3_5_text": ("qwen3_5_text", HYBRID),
    "qwen3_5_moe_text": ("qwen3_5_moe_text", {**HYBRID, "num_experts": 16}),
    "deepseek_v2": ("deepseek_v2", {**LATENT, "q_lora_rank": None, "num_experts_per_tok": 6}),
    "deepseek_v3": ("deepseek_v3", LATENT),
    "kimi_linear": ("kimi_linear", {**KIMI, "num_local_experts": 8}),
    # By default a head would be 4096 / 96 wide.
    "glm4_moe": ("glm4_moe", {**LATENT, "num_attention_heads": 32}),
    "glm4_moe with norms and biases": (
        "glm4_moe",
        {**LATENT, "use_qk_norm": True, "attention_bias": True, "head_dim": 128},
    ),
    "llama4_text": ("llama4_text", {**SHALLOW, "interleave_moe_layer_step": 2}),
}

GEMMA_VISION = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "image_size": 128,
    "vision_use_head": False,
}
QWEN_TEXT = {**SMALL, "num_key_value_heads": 2, "intermediate_size": 1024}

# Name of the case: model type, values of text_config, vision_config and the top.
VISION: dict[str, tuple[str, Values, Values, Values]] = {
    "gemma3": ("gemma3", {**SMALL, "num_hidden_layers": 8}, GEMMA_VISION, {}),
    "qwen2_vl": ("qwen2_vl", QWEN_TEXT, {"depth": 2, "hidden_size": 512}, {}),
    "qwen2_5_vl": ("qwen2_5_vl", QWEN_TEXT, {"depth": 2, "out_hidden_size": 512}, {}),
    "qwen2_5_vl tied": (
        "qwen2_5_vl",
        QWEN_TEXT,
        {"depth": 2, "hidden_size": 1280, "out_hidden_size": 512},
        {"tie_word_embeddings": True},
    ),
    "qwen3_vl": ("qwen3_vl", QWEN_TEXT, {"depth": 2, "out_hidden_size": 512}, {}),
    "qwen3_vl_moe": (
        "qwen3_vl_moe",
        {**QWEN_TEXT, "num_experts": 8, "head_dim": 128},
        {"out_hidden_size": 512, "deepstack_visual_indexes": [8, 16]},
        {},
    ),
    "qwen3_5": ("qwen3_5", HYBRID, {"depth": 3, "out_hidden_size": 1024}, {}),
    "qwen3_5_moe": ("qwen3_5_moe", {**HYBRID, "num_experts": 8}, {"out_hidden_size": 1024}, {}),
    "llama4": (
        "llama4",
        {**SHALLOW, "hidden_size": 1024},
        {"num_hidden_layers": 3, "hidden_size": 1408, "vision_output_dim": 4096},
        {},
    ),
}
