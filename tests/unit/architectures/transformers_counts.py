"""Parameter counts by transformers, on the meta device: no weights are made.

Runs in the vLLM environment, which has torch and transformers, and imports nothing else of the
project. Reads {catalog key: facts of catalog/models.yaml} from standard input and writes
{catalog key: parameters}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

Facts = dict[str, Any]


def main() -> None:
    counts = {key: _count(key, facts) for key, facts in json.load(sys.stdin).items()}
    json.dump({"transformers": transformers.__version__, "parameters": counts}, sys.stdout)


def _count(key: str, facts: Facts) -> int:
    build = next(build for prefix, build in BUILDERS.items() if key.startswith(prefix))
    with torch.device("meta"):
        model = build(facts)
    # A tied table is one tensor under two names, and parameters() names it once.
    return sum(parameter.numel() for parameter in model.parameters())


def _shape(facts: Facts) -> Facts:
    return {
        "num_hidden_layers": facts["layers"],
        "hidden_size": facts["hidden"],
        "num_attention_heads": facts["heads"],
        "num_key_value_heads": facts["kv_heads"],
        "head_dim": facts["head_dim"],
        "intermediate_size": facts["intermediate"],
        "vocab_size": facts["vocabulary"],
        "tie_word_embeddings": facts["tied_embeddings"],
        "max_position_embeddings": facts["context"],
        "pad_token_id": None,
    }


def _causal(config: Any) -> Any:
    return AutoModelForCausalLM.from_config(config)


def _plain(config: type[Any]) -> Callable[[Facts], Any]:
    return lambda facts: _causal(config(**_shape(facts)))


def _qwen_mixture(facts: Facts) -> Any:
    experts = facts["experts"]
    return _causal(
        transformers.Qwen3MoeConfig(
            **_shape(facts),
            num_experts=experts["count"],
            num_experts_per_tok=experts["per_token"],
            moe_intermediate_size=experts["intermediate"],
        )
    )


def _mixtral(facts: Facts) -> Any:
    experts = facts["experts"]
    return _causal(
        transformers.MixtralConfig(
            **_shape(facts) | {"intermediate_size": experts["intermediate"]},
            num_local_experts=experts["count"],
            num_experts_per_tok=experts["per_token"],
        )
    )


def _gpt_oss(facts: Facts) -> Any:
    experts = facts["experts"]
    return _causal(
        transformers.GptOssConfig(
            **_shape(facts) | {"intermediate_size": experts["intermediate"]},
            num_local_experts=experts["count"],
            num_experts_per_tok=experts["per_token"],
            attention_bias=True,
        )
    )


def _deepseek(facts: Facts) -> Any:
    experts, latent = facts["experts"], facts["latent"]
    shape = {key: value for key, value in _shape(facts).items() if key != "head_dim"}
    return _causal(
        transformers.DeepseekV3Config(
            **shape,
            n_routed_experts=experts["count"],
            num_experts_per_tok=experts["per_token"],
            moe_intermediate_size=experts["intermediate"],
            n_shared_experts=experts["shared"],
            first_k_dense_replace=experts["leading_dense_layers"],
            q_lora_rank=latent["q_lora_rank"],
            kv_lora_rank=latent["kv_lora_rank"],
            qk_rope_head_dim=latent["rope_dimensions"],
            qk_nope_head_dim=latent["nope_dimensions"],
            v_head_dim=latent["value_dimensions"],
        )
    )


def _gemma_3(facts: Facts) -> Any:
    text = transformers.Gemma3TextConfig(**_shape(facts))
    if facts["vision_parameters"] is None:
        return _causal(text)
    # The vision tower of the 4B, 12B and 27B models: SigLIP so400m at 896 pixels.
    vision = {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "image_size": 896,
        "patch_size": 14,
        "vision_use_head": False,
    }
    config = transformers.Gemma3Config(
        text_config=text.to_dict(), vision_config=vision, tie_word_embeddings=True
    )
    return transformers.Gemma3ForConditionalGeneration(config)


def _qwen_vision(facts: Facts) -> Any:
    shape = _shape(facts)
    vision = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
    config = transformers.Qwen2_5_VLConfig(
        text_config=shape,
        vision_config=vision | {"out_hidden_size": facts["hidden"]},
        tie_word_embeddings=facts["tied_embeddings"],
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def _llama_4(facts: Facts) -> Any:
    experts = facts["experts"]
    shape = _shape(facts) | {"intermediate_size": experts["intermediate"]}
    text = shape | {
        "intermediate_size_mlp": facts["intermediate"],
        "num_local_experts": experts["count"],
        "num_experts_per_tok": experts["per_token"],
        "interleave_moe_layer_step": experts["every"],
    }
    vision = {
        "hidden_size": 1408,
        "intermediate_size": 5632,
        "num_hidden_layers": 34,
        "image_size": 336,
        "patch_size": 14,
        "vision_output_dim": 4096,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
    }
    config = transformers.Llama4Config(text_config=text, vision_config=vision)
    return transformers.Llama4ForConditionalGeneration(config)


def _qwen_3_vision(facts: Facts) -> Any:
    text = _shape(facts)
    vision = {"out_hidden_size": facts["hidden"]}
    if facts["experts"] is None:
        config = transformers.Qwen3VLConfig(text_config=text, vision_config=vision)
        return transformers.Qwen3VLForConditionalGeneration(config)
    mixed = transformers.Qwen3VLMoeConfig(
        text_config=text | _qwen_experts(facts), vision_config=vision
    )
    return transformers.Qwen3VLMoeForConditionalGeneration(mixed)


def _qwen_next(facts: Facts) -> Any:
    values = _shape(facts) | _qwen_experts(facts) | _linear(facts)
    return _causal(transformers.Qwen3NextConfig(**values))


def _qwen_3_5(facts: Facts) -> Any:
    text, vision = _shape(facts) | _linear(facts), {"out_hidden_size": facts["hidden"]}
    if facts["experts"] is None:
        config = transformers.Qwen3_5Config(text_config=text, vision_config=vision)
        return transformers.Qwen3_5ForConditionalGeneration(config)
    mixed = transformers.Qwen3_5MoeConfig(
        text_config=text | _qwen_experts(facts), vision_config=vision
    )
    return transformers.Qwen3_5MoeForConditionalGeneration(mixed)


def _qwen_experts(facts: Facts) -> Facts:
    experts = facts["experts"]
    return {
        "num_experts": experts["count"],
        "num_experts_per_tok": experts["per_token"],
        "moe_intermediate_size": experts["intermediate"],
        "shared_expert_intermediate_size": experts["shared"] * experts["intermediate"],
    }


def _linear(facts: Facts) -> Facts:
    linear = facts["linear_attention"]
    return {
        "linear_num_key_heads": linear["key_heads"],
        "linear_num_value_heads": linear["value_heads"],
        "linear_key_head_dim": linear["key_dimensions"],
        "linear_value_head_dim": linear["value_dimensions"],
        "linear_conv_kernel_dim": linear["convolution"],
    }


def _kimi_linear(facts: Facts) -> Any:
    linear, experts, latent = facts["linear_attention"], facts["experts"], facts["latent"]
    layers = facts["layers"]
    attending = {*range(4, layers + 1, 4), layers}  # counted from 1
    shape = {key: value for key, value in _shape(facts).items() if key != "head_dim"}
    return _causal(
        transformers.KimiLinearConfig(
            **shape,
            num_local_experts=experts["count"],
            num_experts_per_tok=experts["per_token"],
            moe_intermediate_size=experts["intermediate"],
            n_shared_experts=experts["shared"],
            first_k_dense_replace=experts["leading_dense_layers"],
            kv_lora_rank=latent["kv_lora_rank"],
            linear_attn_config={
                "full_attn_layers": sorted(attending),
                "kda_layers": [each for each in range(1, layers + 1) if each not in attending],
                "head_dim": linear["key_dimensions"],
                "num_heads": linear["key_heads"],
                "short_conv_kernel_size": linear["convolution"],
            },
        )
    )


def _glm(facts: Facts) -> Any:
    experts = facts["experts"]
    return _causal(
        transformers.Glm4MoeConfig(
            **_shape(facts),
            n_routed_experts=experts["count"],
            num_experts_per_tok=experts["per_token"],
            moe_intermediate_size=experts["intermediate"],
            n_shared_experts=experts["shared"],
            first_k_dense_replace=experts["leading_dense_layers"],
            attention_bias="qkv_bias" in facts["parts"],
            use_qk_norm="qk_norm" in facts["parts"],
        )
    )


# By prefix of the catalog key; the first that matches.
BUILDERS: dict[str, Callable[[Facts], Any]] = {
    "llama-4": _llama_4,
    "codellama": _plain(transformers.LlamaConfig),
    "qwen3-vl": _qwen_3_vision,
    "qwen3-next": _qwen_next,
    "qwen3.5": _qwen_3_5,
    "qwen3-coder": _qwen_mixture,
    "kimi-linear": _kimi_linear,
    "kimi-k2": _deepseek,
    "glm": _glm,
    "phi-2": _plain(transformers.PhiConfig),
    "granite": _plain(transformers.GraniteConfig),
    "gemma-7b": _plain(transformers.GemmaConfig),
    "smollm2": _plain(transformers.LlamaConfig),
    "llama": _plain(transformers.LlamaConfig),
    "qwen2.5-vl": _qwen_vision,
    "qwen2.5": _plain(transformers.Qwen2Config),
    "qwen3-30b-a3b": _qwen_mixture,
    "qwen3-235b-a22b": _qwen_mixture,
    "qwen3": _plain(transformers.Qwen3Config),
    "mistral": _plain(transformers.MistralConfig),
    "mixtral": _mixtral,
    "phi-4": _plain(transformers.Phi3Config),
    "gemma-2": _plain(transformers.Gemma2Config),
    "gemma-3": _gemma_3,
    "deepseek": _deepseek,
    "gpt-oss": _gpt_oss,
}


if __name__ == "__main__":
    main()
