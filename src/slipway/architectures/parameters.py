"""Parameters of an architecture, matrix by matrix: their count, quantization and division.

Shapes are those of the architecture's config.json, as transformers builds it; the counts are
checked against transformers on the meta device in tests/unit/architectures/test_parameters.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from slipway.config.catalog import (
    Architecture,
    LatentAttention,
    LinearAttention,
    MatrixName,
    MixtureOfExperts,
    attending_layers,
)

# How tensor parallelism divides a matrix: over all devices, over KV heads (replicated once there
# are more devices than heads), over the devices that share experts, or not at all.
Division = Literal["tensor", "kv_heads", "experts", "replicated"]
# linear and expert: matrices that quantization may pack; kept: matrices it leaves in 16 bits.
Kind = Literal["linear", "expert", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Parameters of one kind in each of `layers`, which ascend; experts are counted together."""

    name: str
    parameters: int  # in one layer
    layers: Sequence[int]
    division: Division
    kind: Kind
    active: int  # the part of `parameters` used for one token


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """`active` parameters are used for one token; `embeddings` are the token tables alone."""

    total: int
    active: int
    embeddings: int


@cache
def count(architecture: Architecture) -> ParameterCount:
    """All parameters, vision tower included.

    An embedding table counts as active, as model cards do: 3.3 of 30.5 billion for qwen3-30b-a3b.
    """
    matrices = layer_matrices(architecture)
    layers = sum(matrix.parameters * len(matrix.layers) for matrix in matrices)
    active = sum(matrix.active * len(matrix.layers) for matrix in matrices)
    outside = input_parameters(architecture) + output_parameters(architecture)
    tied = token_table(architecture) if architecture.tied_embeddings else 0
    tables = 2 * token_table(architecture) - tied
    return ParameterCount(
        total=layers + outside - tied, active=active + outside - tied, embeddings=tables
    )


def token_table(architecture: Architecture) -> int:
    """One row per token of the vocabulary."""
    return architecture.vocabulary * architecture.hidden


def input_parameters(architecture: Architecture) -> int:
    """Before the layers: token table, learned positions, vision tower."""
    positions = (architecture.learned_positions or 0) * architecture.hidden
    return token_table(architecture) + positions + (architecture.vision_parameters or 0)


def output_parameters(architecture: Architecture) -> int:
    """After the layers: the last norm and the logits table, which may be tied."""
    bias = architecture.vocabulary * ("logits_bias" in architecture.parts)
    return token_table(architecture) + bias + _norm(architecture)


@cache
def layer_matrices(architecture: Architecture) -> tuple[Matrix, ...]:
    """Every matrix of the layers."""
    layers, recurrent = range(architecture.layers), linear_layers(architecture)
    attending = tuple(layer for layer in layers if layer not in recurrent)
    matrices = (
        *_attention(architecture, attending if recurrent else layers),
        *_linear_attention(architecture, tuple(sorted(recurrent))),
        *_mlps(architecture, layers),
        _kept("norms", _norms(architecture), layers),
    )
    return tuple(part for matrix in matrices for part in _by_packing(architecture, matrix))


def linear_layers(architecture: Architecture) -> frozenset[int]:
    """The layers with linear attention."""
    linear, layers = architecture.linear_attention, architecture.layers
    if linear is None:
        return frozenset()
    return frozenset(range(layers)) - attending_layers(layers, layers - linear.layers)


def kv_heads_per_device(architecture: Architecture, tensor: int) -> int:
    """KV heads are divided, and replicated once there are more devices than heads."""
    return max(1, -(-architecture.kv_heads // tensor))


def _by_packing(architecture: Architecture, matrix: Matrix) -> Iterator[Matrix]:
    """The matrix in the layers where it is quantized, and in those where it is kept."""
    kept = {
        layer
        for each in architecture.unquantized
        if matrix.name in each.matrices
        for layer in (matrix.layers if each.layers is None else each.layers)
    }
    if not kept:
        yield matrix
        return
    packed = tuple(layer for layer in matrix.layers if layer not in kept)
    yield replace(matrix, layers=packed)
    yield replace(matrix, layers=tuple(x for x in matrix.layers if x in kept), kind="kept")


def _attention(architecture: Architecture, layers: Sequence[int]) -> Iterator[Matrix]:
    latent = architecture.latent
    if latent is not None:
        yield from _latent_attention(architecture, latent, layers)
        return
    hidden, parts = architecture.hidden, architecture.parts
    queries = architecture.heads * architecture.head_dim
    keys = architecture.kv_heads * architecture.head_dim
    gated = 2 if "attention_gate" in parts else 1
    yield _linear("query", hidden * queries * gated, layers)
    yield _linear("key and value", 2 * hidden * keys, layers, division="kv_heads")
    yield _linear("attention output", queries * hidden, layers)
    yield _kept(
        "attention biases and norms",
        (queries + 2 * keys) * ("qkv_bias" in parts)
        + hidden * ("output_bias" in parts)
        + architecture.heads * ("attention_sinks" in parts)
        + 2 * architecture.head_dim * ("qk_norm" in parts),
        layers,
    )


def _linear_attention(architecture: Architecture, layers: Sequence[int]) -> Iterator[Matrix]:
    """As transformers builds Qwen3-Next and Kimi Linear. What is not a projection stays in 16
    bits."""
    linear = architecture.linear_attention
    if linear is None:
        return
    hidden, heads = architecture.hidden, linear.value_heads
    keys = linear.key_heads * linear.key_dimensions
    values = heads * linear.value_dimensions
    yield _linear("linear attention", hidden * (2 * keys + values) + _gates(hidden, linear), layers)
    yield _linear("linear attention output", values * hidden, layers)
    decays = heads + (keys if linear.gate_rank else heads)
    convolution = (2 * keys + values) * linear.convolution
    yield _kept("states", convolution + decays + linear.value_dimensions, layers)


def _gates(hidden: int, linear: LinearAttention) -> int:
    """Of the step and the decay, one a head, and of the output, one a value; or the last two by a
    projection down and one up."""
    values = linear.value_heads * linear.value_dimensions
    rank = linear.gate_rank
    if rank is None:
        return hidden * (2 * linear.value_heads + values)
    keys = linear.key_heads * linear.key_dimensions
    return hidden * linear.value_heads + rank * (2 * hidden + keys + values)


def _latent_attention(
    architecture: Architecture, latent: LatentAttention, layers: Sequence[int]
) -> Iterator[Matrix]:
    """DeepSeek-V2, arXiv 2405.04434 §2.1: both down-projections are on every device."""
    hidden, heads = architecture.hidden, architecture.heads
    queries = heads * (latent.nope_dimensions + latent.rope_dimensions)
    rank = latent.q_lora_rank
    if rank is None:
        yield _linear("query", hidden * queries, layers)
    else:
        yield _linear("query down", hidden * rank, layers, division="replicated")
        yield _linear("query up", rank * queries, layers)
    compressed = latent.kv_lora_rank + latent.rope_dimensions
    yield _linear("key and value down", hidden * compressed, layers, division="replicated")
    per_head = latent.nope_dimensions + latent.value_dimensions
    yield _linear("key and value up", latent.kv_lora_rank * heads * per_head, layers)
    yield _linear("attention output", heads * latent.value_dimensions * hidden, layers)
    yield _kept("latent norms", latent.kv_lora_rank + (rank or 0), layers)


def _mlps(architecture: Architecture, layers: range) -> Iterator[Matrix]:
    experts = architecture.experts
    if experts is None:
        yield _linear("MLP", _mlp(architecture, architecture.intermediate), layers)
        yield _kept("MLP biases", _mlp_biases(architecture), layers)
        return
    mixed = layers[experts.leading_dense_layers + experts.every - 1 :: experts.every]
    dense = tuple(layer for layer in layers if layer not in mixed)
    yield _linear("MLP", _mlp(architecture, architecture.intermediate), dense)
    yield from _mixture(architecture, experts, mixed)


def _mixture(
    architecture: Architecture, experts: MixtureOfExperts, layers: range
) -> Iterator[Matrix]:
    hidden, parts = architecture.hidden, architecture.parts
    expert = _mlp(architecture, experts.intermediate)
    yield Matrix(
        name="experts",
        parameters=experts.count * expert,
        layers=layers,
        division="experts",
        kind="expert",
        active=experts.per_token * expert,
    )
    bias = (2 * experts.intermediate + hidden) * ("expert_bias" in parts)
    yield Matrix(
        name="expert biases",
        parameters=experts.count * bias,
        layers=layers,
        division="experts",
        kind="kept",
        active=experts.per_token * bias,
    )
    yield _linear("shared experts", experts.shared * expert, layers)
    router = experts.count * (hidden + ("router_bias" in parts))
    yield _kept("router", router + hidden * ("shared_expert_gate" in parts), layers)


def _mlp(architecture: Architecture, intermediate: int) -> int:
    """Gate, up and down projection; two matrices where there is no gate."""
    matrices = 2 if "plain_mlp" in architecture.parts else 3
    return matrices * architecture.hidden * intermediate


def _mlp_biases(architecture: Architecture) -> int:
    if "mlp_bias" not in architecture.parts:
        return 0
    inner = 1 if "plain_mlp" in architecture.parts else 2
    return inner * architecture.intermediate + architecture.hidden


def _norms(architecture: Architecture) -> int:
    """One before attention and one before the MLP, or one before both; as many after them."""
    before = 1 if "parallel_mlp" in architecture.parts else 2
    after = 2 if "post_norms" in architecture.parts else 0
    return (before + after) * _norm(architecture)


def _norm(architecture: Architecture) -> int:
    return architecture.hidden * (2 if "norm_bias" in architecture.parts else 1)


def _linear(
    name: MatrixName, parameters: int, layers: Sequence[int], *, division: Division = "tensor"
) -> Matrix:
    return Matrix(
        name=name,
        parameters=parameters,
        layers=layers,
        division=division,
        kind="linear",
        active=parameters,
    )


def _kept(name: str, parameters: int, layers: Sequence[int]) -> Matrix:
    return Matrix(
        name=name,
        parameters=parameters,
        layers=layers,
        division="replicated",
        kind="kept",
        active=parameters,
    )
