"""Which matrices a quantized checkpoint keeps in 16 bits, from the names in its config.json.

Names are matched as vLLM does: by is_layer_skipped in quant_utils.py, in modelopt.py, and by
should_ignore_layer in compressed_tensors/utils.py, all of
vllm/model_executor/layers/quantization.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from slipway.config.catalog import Architecture, MatrixName, Unquantized, attending_layers

Matcher = Callable[[str], bool]

# How checkpoints name the layers of a text model, alone and within one with vision.
PREFIXES = (
    "model.layers",
    "language_model.model.layers",
    "model.language_model.layers",
    "model.language_model.model.layers",
)

# The modules of a matrix: all of them are packed, or none. Each may be spelled in several ways.
Modules = tuple[tuple[str, ...], ...]
_FUSED = "self_attn.qkv_proj"
_ATTENTION: Mapping[MatrixName, Modules] = {
    "query": (("self_attn.q_proj", _FUSED),),
    "key and value": (("self_attn.k_proj", _FUSED), ("self_attn.v_proj", _FUSED)),
    "attention output": (("self_attn.o_proj", "self_attn.dense"),),
}
_LATENT: Mapping[MatrixName, Modules] = {
    "query": (("self_attn.q_proj",),),
    "query down": (("self_attn.q_a_proj",),),
    "query up": (("self_attn.q_b_proj",),),
    "key and value down": (("self_attn.kv_a_proj_with_mqa",),),
    "key and value up": (("self_attn.kv_b_proj",),),
    "attention output": (("self_attn.o_proj",),),
}
# The gates of one value a head are too small to matter, and are often kept.
_DELTA_NET: Mapping[MatrixName, Modules] = {
    "linear attention": (
        ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"),
        ("linear_attn.in_proj_z", "linear_attn.in_proj_qkvz"),
    ),
    "linear attention output": (("linear_attn.out_proj",),),
}
_KIMI_DELTA: Mapping[MatrixName, Modules] = {
    "linear attention": (("self_attn.q_proj",), ("self_attn.k_proj",), ("self_attn.v_proj",)),
    "linear attention output": (("self_attn.o_proj",),),
}
_MLP: Modules = (
    ("mlp.gate_proj", "mlp.gate_up_proj", "feed_forward.gate_proj", "mlp.fc1", "mlp.c_fc"),
    ("mlp.up_proj", "mlp.gate_up_proj", "feed_forward.up_proj", "mlp.fc1", "mlp.c_fc"),
    ("mlp.down_proj", "feed_forward.down_proj", "mlp.fc2", "mlp.c_proj"),
)
_SHARED: Modules = tuple(
    tuple(
        f"{place}.{name}"
        for place in ("mlp.shared_experts", "mlp.shared_expert", "feed_forward.shared_expert")
        for name in names
    )
    for names in (("gate_proj", "gate_up_proj"), ("up_proj", "gate_up_proj"), ("down_proj",))
)
_EXPERTS: Modules = tuple(
    tuple(
        f"{place}.experts{name}"
        for place in ("mlp", "block_sparse_moe", "feed_forward")
        for name in ("", ".0", *(f".0.{each}" for each in names), f".{names[0]}")
    )
    for names in (("gate_proj", "w1", "gate_up_proj"), ("up_proj", "w3"), ("down_proj", "w2"))
)


def exactly(names: Sequence[str]) -> Matcher:
    """FP8. Experts are also meant where a longer name contains theirs."""
    known = frozenset(names)
    of_experts = [name for name in names if "experts" in name]
    return lambda module: (
        module in known or ("experts" in module and any(module in longer for longer in of_experts))
    )


def within(names: Sequence[str]) -> Matcher:
    """AWQ: a part of the module's name."""
    return lambda module: any(name in module for name in names)


def by_expression(names: Sequence[str]) -> Matcher:
    """compressed-tensors: the name, or a regular expression after "re:"."""
    known = frozenset(names)
    expressions = [re.compile(name[3:]) for name in names if name.startswith("re:")]
    return lambda module: module in known or any(each.match(module) for each in expressions)


def by_wildcard(names: Sequence[str]) -> Matcher:
    """ModelOpt: a part of the name, or a wildcard."""
    wild = [name for name in names if "*" in name]
    plain = [name for name in names if "*" not in name]
    return lambda module: (
        any(name in module for name in plain) or any(fnmatchcase(module, name) for name in wild)
    )


class PartlyKeptError(Exception):
    """A matrix of which some modules are kept and others are packed: (matrix, layer)."""


def kept_matrices(architecture: Architecture, is_kept: Matcher) -> tuple[Unquantized, ...]:
    """The kept matrices with their layers; without layers where a matrix is kept in all of them.
    Raises PartlyKeptError.
    """
    by_layers: dict[tuple[int, ...] | None, list[MatrixName]] = {}
    for matrix, modules, layers in _matrices(architecture):
        kept = tuple(layer for layer in layers if _is_kept(matrix, modules, layer, is_kept))
        if kept:
            by_layers.setdefault(None if kept == layers else kept, []).append(matrix)
    return tuple(
        Unquantized(matrices=tuple(matrices), layers=layers)
        for layers, matrices in by_layers.items()
    )


def _is_kept(matrix: MatrixName, modules: Modules, layer: int, is_kept: Matcher) -> bool:
    found = {
        any(is_kept(f"{prefix}.{layer}.{name}") for prefix in PREFIXES for name in spellings)
        for spellings in modules
    }
    if len(found) > 1:
        raise PartlyKeptError(matrix, layer)
    return found == {True}


def _matrices(
    architecture: Architecture,
) -> Iterator[tuple[MatrixName, Modules, tuple[int, ...]]]:
    """Every matrix that can be packed, and the layers that have it."""
    linear, layers = architecture.linear_attention, range(architecture.layers)
    attending = tuple(layers)
    if linear is not None:
        spread = attending_layers(architecture.layers, architecture.layers - linear.layers)
        attending = tuple(layer for layer in layers if layer in spread)
        recurrent = tuple(layer for layer in layers if layer not in spread)
        for matrix, modules in (_KIMI_DELTA if linear.gate_rank else _DELTA_NET).items():
            yield matrix, modules, recurrent
    for matrix, modules in _attention(architecture).items():
        yield matrix, modules, attending
    experts = architecture.experts
    mixed = (
        layers[experts.leading_dense_layers + experts.every - 1 :: experts.every] if experts else ()
    )
    if dense := tuple(layer for layer in layers if layer not in mixed):
        yield "MLP", _MLP, dense
    if experts:
        yield "experts", _EXPERTS, tuple(mixed)
    if experts and experts.shared:
        yield "shared experts", _SHARED, tuple(mixed)


def _attention(architecture: Architecture) -> Mapping[MatrixName, Modules]:
    latent = architecture.latent
    if latent is None:
        return _ATTENTION
    lacking = {"query down", "query up"} if latent.q_lora_rank is None else {"query"}
    return {matrix: modules for matrix, modules in _LATENT.items() if matrix not in lacking}
