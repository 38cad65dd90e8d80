"""The scheme of published weights, from `quantization_config`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from slipway.config.catalog import Architecture

from .kept import (
    Matcher,
    PartlyKeptError,
    by_expression,
    by_wildcard,
    exactly,
    kept_matrices,
    within,
)
from .keys import Keys

KEY = "quantization_config"
BLOCK = [128, 128]

# The fields of Architecture that a quantization decides.
Published = dict[str, Any]


def published(architecture: Architecture, top: Keys) -> Published:
    """Empty where the weights are not quantized. Raises ConfigError for a scheme that is not
    supported."""
    if not top.get(KEY):
        return {}
    stated = top.below(KEY)
    method = _method(stated)
    if method not in METHODS:
        raise stated.refusal(
            "quant_method",
            "is not supported",
            value=method,
            fix=f"use weights in one of {', '.join(METHODS)}",
        )
    return METHODS[method](architecture, stated)


def _method(stated: Keys) -> str:
    """ModelOpt's files name their algorithm only."""
    if stated.name("quant_method") is None and stated.name("quant_algo") is not None:
        return "modelopt"
    return str(stated.name("quant_method")).lower()


def _fp8(architecture: Architecture, stated: Keys) -> Published:
    """Blocks of 128 x 128, or a scale per tensor or channel."""
    names = stated.names("ignored_layers") or stated.names("modules_to_not_convert")
    block = stated.get("weight_block_size")
    if block not in (None, BLOCK):
        raise _unknown(stated, "weight_block_size", f"{BLOCK} or none")
    weights = "fp8" if block is None else "fp8-block"
    return _fields(architecture, stated, weights, exactly(names))


def _awq(architecture: Architecture, stated: Keys) -> Published:
    _expect(stated, "bits", 4)
    _expect(stated, "zero_point", True)
    names = stated.names("modules_to_not_convert")
    group = stated.number("group_size")
    return _fields(architecture, stated, "awq", within(names), group=group)


def _gptq(architecture: Architecture, stated: Keys) -> Published:
    """AutoGPTQ stores zero points of symmetric weights, too."""
    _expect(stated, "bits", 4)
    _expect(stated, "lm_head", False)
    _expect(stated, "dynamic", {})
    group = stated.number("group_size")
    return _fields(architecture, stated, "gptq", within(()), group=group)


def _mxfp4(architecture: Architecture, stated: Keys) -> Published:
    """The scheme packs experts only, as gpt-oss does."""
    if architecture.experts is None:
        raise stated.refusal(
            "quant_method",
            "is supported for mixtures of experts only, which this model is not",
            value=stated.get("quant_method"),
            fix="use other weights of this model",
        )
    return {"published_weights": "mxfp4"}


def _modelopt(architecture: Architecture, stated: Keys) -> Published:
    algorithms = {"FP8": "fp8", "NVFP4": "nvfp4"}
    algorithm = str(stated.name("quant_algo")).upper()
    if algorithm not in algorithms:
        raise _unknown(stated, "quant_algo", " or ".join(algorithms))
    names = stated.names("exclude_modules") or stated.names("ignore")
    return _fields(architecture, stated, algorithms[algorithm], by_wildcard(names))


def _compressed(architecture: Architecture, stated: Keys) -> Published:
    """compressed-tensors: one group of settings for every linear layer that is not ignored."""
    groups = stated.below("config_groups")
    if len(groups.values) != 1:
        raise _unknown(stated, "config_groups", "one group")
    group = groups.below(next(iter(groups.values)))
    if group.get("targets") not in (None, ["Linear"]):
        raise _unknown(group, "targets", '["Linear"]')
    weights = group.below("weights")
    is_kept = _by_expression(stated)
    kind = (weights.get("type"), weights.get("num_bits"), weights.get("strategy"))
    if kind[:2] == ("float", 8) and weights.get("block_structure") in (None, BLOCK):
        scheme = "fp8-block" if kind[2] == "block" else "fp8"
        return _fields(architecture, stated, scheme, is_kept)
    if kind[:2] == ("int", 8) and group.get("input_activations"):
        return _fields(architecture, stated, "int8", is_kept)
    if kind == ("int", 4, "group") and not group.get("input_activations"):
        scheme = "w4a16" if weights.get("symmetric") is not False else "w4a16-asym"
        size = weights.number("group_size")
        return _fields(architecture, stated, scheme, is_kept, group=size)
    if kind[:2] == ("float", 4) and weights.get("group_size") == 16:
        return _fields(architecture, stated, "nvfp4", is_kept)
    raise weights.refusal(
        "type",
        "is not supported with these bits, strategy and activations",
        value=dict(weights.values),
        fix="use weights in 8 bits, in integers of 4 bits by group, or in NVFP4",
    )


def _by_expression(stated: Keys) -> Matcher:
    names = stated.names("ignore")
    try:
        return by_expression(names)
    except re.error as error:
        raise stated.refusal(
            "ignore",
            f"has something that is not a regular expression: {error}",
            value=names,
            fix="correct the value",
        ) from None


Method = Callable[[Architecture, Keys], Published]
METHODS: Mapping[str, Method] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": _awq,
    "gptq": _gptq,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed-tensors": _compressed,
}


def _fields(
    architecture: Architecture,
    stated: Keys,
    weights: str,
    is_kept: Matcher,
    *,
    group: int | None = None,
) -> Published:
    try:
        unquantized = kept_matrices(architecture, is_kept)
    except PartlyKeptError as partly:
        matrix, layer = partly.args
        raise stated.refusal(
            "ignore",
            f"keeps only some modules of the {matrix} of layer {layer}, which is not supported",
            fix="use weights that keep all of them, or none",
        ) from None
    return {
        "published_weights": weights,
        "quantization_group": group,
        "unquantized": unquantized,
    }


def _expect(stated: Keys, key: str, supported: Any) -> None:
    """A key that is missing has the usual value."""
    if stated.get(key) not in (None, supported):
        raise _unknown(stated, key, str(supported).lower())


def _unknown(stated: Keys, key: str, supported: str) -> Exception:
    return stated.refusal(
        key,
        f"must be {supported}",
        value=stated.get(key),
        fix="use other weights of this model",
    )
