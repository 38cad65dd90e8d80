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


# By prefix of the catalog key; the first that matches.
BUILDERS: dict[str, Callable[[Facts], Any]] = {
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
