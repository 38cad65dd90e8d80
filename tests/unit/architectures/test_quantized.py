"""Schemes of published weights, and the matrices that they keep in 16 bits."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.config.catalog import Architecture, Unquantized
from slipway.config.errors import ConfigError
from slipway.planner.quantization import SCHEMES
from tests.unit.architectures.configs import DEEPSEEK, LLAMA, LLAMA_4, QWEN_MOE, QWEN_NEXT, read

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
LAYERS = range(4)


def quantized(config: dict[str, Any], **stated: Any) -> Architecture:
    return read(config, quantization_config=stated)


def compressed(config: dict[str, Any], weights: dict[str, Any], **others: Any) -> Architecture:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None}
    return quantized(
        config,
        quant_method="compressed-tensors",
        config_groups={"group_0": group | others.pop("group", {})},
        **others,
    )


INT_4 = {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True}
FP8 = {"type": "float", "num_bits": 8, "strategy": "channel"}
ACTIVATIONS = {"input_activations": {"num_bits": 8}}


@pytest.mark.parametrize(
    ("stated", "scheme", "group"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", None),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": []}, "fp8", None),
        ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True}, "awq", 32),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, "gptq", 128),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []}, "nvfp4", None),
        ({"quant_algo": "FP8", "exclude_modules": ["lm_head"]}, "fp8", None),
    ],
)
def test_a_scheme_is_read(stated: dict[str, Any], scheme: str, group: int | None) -> None:
    architecture = quantized(LLAMA, **stated)
    assert (architecture.published_weights, architecture.quantization_group) == (scheme, group)
    assert architecture.unquantized == ()
    assert scheme in SCHEMES


@pytest.mark.parametrize(
    ("weights", "group", "scheme"),
    [
        (FP8, ACTIVATIONS, "fp8"),
        ({**FP8, "strategy": "block", "block_structure": [128, 128]}, ACTIVATIONS, "fp8-block"),
        ({"type": "int", "num_bits": 8, "strategy": "channel"}, ACTIVATIONS, "int8"),
        (INT_4, {}, "w4a16"),
        ({**INT_4, "symmetric": False}, {}, "w4a16-asym"),
        ({"type": "float", "num_bits": 4, "group_size": 16}, ACTIVATIONS, "nvfp4"),
    ],
)
def test_a_scheme_of_compressed_tensors_is_read(
    weights: dict[str, Any], group: dict[str, Any], scheme: str
) -> None:
    architecture = compressed(LLAMA, weights, group=group)
    assert architecture.published_weights == scheme
    assert scheme in SCHEMES


def test_experts_are_read_in_mxfp4() -> None:
    assert quantized(QWEN_MOE, quant_method="mxfp4").published_weights == "mxfp4"


def test_layers_and_attention_that_are_named_are_kept() -> None:
    names = [f"model.layers.{layer}.self_attn.{name}" for layer in LAYERS for name in ATTENTION]
    names += [f"model.layers.{layer}.mlp.{part}_proj" for layer in (0, 3) for part in PARTS]
    architecture = quantized(LLAMA, quant_method="fbgemm_fp8", modules_to_not_convert=names)
    assert architecture.unquantized == (
        Unquantized(matrices=("query", "key and value", "attention output")),
        Unquantized(matrices=("MLP",), layers=(0, 3)),
    )


PARTS = ("gate", "up", "down")


def test_expressions_name_matrices() -> None:
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"]
    ignore += [r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    (kept,) = compressed(DEEPSEEK, INT_4, ignore=ignore).unquantized
    assert kept.layers is None
    assert {"query down", "key and value up", "MLP", "shared experts"} <= {*kept.matrices}
    assert "experts" not in kept.matrices


def test_wildcards_name_matrices() -> None:
    names = [f"model.layers.{layer}.self_attn*" for layer in LAYERS] + ["lm_head"]
    architecture = quantized(QWEN_MOE, quant_algo="NVFP4", exclude_modules=names)
    (kept,) = architecture.unquantized
    assert kept == Unquantized(matrices=("query", "key and value", "attention output"))


def test_a_part_of_a_name_is_enough_for_awq() -> None:
    architecture = quantized(
        LLAMA,
        quant_method="awq",
        bits=4,
        group_size=128,
        modules_to_not_convert=["visual", "layers.1.mlp"],
    )
    assert architecture.unquantized == (Unquantized(matrices=("MLP",), layers=(1,)),)


def test_names_of_the_text_model_within_one_with_vision_are_known() -> None:
    names = [
        f"language_model.model.layers.{each}.self_attn.{p}" for each in LAYERS for p in ATTENTION
    ]
    architecture = compressed(LLAMA_4, FP8, ignore=names, group=ACTIVATIONS)
    (kept,) = architecture.unquantized
    assert kept.layers is None


def test_routers_and_small_gates_are_kept_anyway() -> None:
    names = [f"model.layers.{each}.mlp.gate" for each in range(8)]
    names += [f"model.layers.{each}.linear_attn.in_proj_ba" for each in range(8)]
    assert compressed(QWEN_NEXT, FP8, ignore=names, group=ACTIVATIONS).unquantized == ()


def test_linear_attention_is_kept_where_it_is() -> None:
    architecture = compressed(QWEN_NEXT, INT_4, ignore=["re:.*linear_attn.*"])
    kept = Unquantized(matrices=("linear attention", "linear attention output"))
    assert architecture.unquantized == (kept,)


def test_experts_are_kept_in_the_layers_that_are_named() -> None:
    architecture = compressed(QWEN_MOE, INT_4, ignore=["re:model.layers.0.mlp.experts.*"])
    assert architecture.unquantized == (Unquantized(matrices=("experts",), layers=(0,)),)


@pytest.mark.parametrize(
    ("stated", "key"),
    [
        ({"quant_method": "mxfp4"}, "quant_method"),
        ({"quant_method": "bitsandbytes"}, "quant_method"),
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, "weight_block_size"),
        ({"quant_method": "awq", "bits": 8, "group_size": 128}, "bits"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, "lm_head"),
        ({"quant_algo": "MIXED_PRECISION"}, "quant_algo"),
        ({"quant_method": "fp8", "ignored_layers": "lm_head"}, "ignored_layers"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "config_groups"),
    ],
)
def test_a_scheme_that_is_not_supported_is_refused(stated: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quantized(LLAMA, **stated)
    assert caught.value.problems[0].key == f"quantization_config.{key}"


def test_groups_with_targets_of_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="targets"):
        compressed(LLAMA, INT_4, group={"targets": ["re:.*mlp.*"]})


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="regular expression"):
        compressed(LLAMA, INT_4, ignore=["re:("])


def test_a_matrix_that_is_kept_in_part_is_refused() -> None:
    names = ["model.layers.2.self_attn.k_proj"]
    with pytest.raises(ConfigError, match="some modules of the key and value of layer 2"):
        quantized(LLAMA, quant_method="fp8", modules_to_not_convert=names)
