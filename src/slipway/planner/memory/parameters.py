"""Parameters of an architecture, matrix by matrix: their count, quantization and division.

Shapes are those of the architecture's config.json, as transformers builds it; the counts are
checked against transformers on the meta device in tests/unit/planner/memory/test_parameters.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from slipway.config.catalog import Architecture, LatentAttention, MixtureOfExperts

# How tensor parallelism divides a matrix: over all devices, over KV heads (replicated once there
# are more devices than heads), over the devices that share experts, or not at all.
Division = Literal["tensor", "kv_heads", "experts", "replicated"]
# linear and expert: matrices that quantization may pack; kept: matrices it leaves in 16 bits.
Kind = Literal["linear", "expert", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Parameters of one kind in each of `layers` layers, experts counted together."""

    name: str
    parameters: int  # in one layer
    layers: range
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
    return token_table(architecture) + architecture.hidden


@cache
def layer_matrices(architecture: Architecture) -> tuple[Matrix, ...]:
    """Every matrix of the layers."""
    layers = range(architecture.layers)
    return (
        *_attention(architecture, layers),
        *_mlps(architecture, layers),
        _kept("norms", _norms(architecture), layers),
    )


def _attention(architecture: Architecture, layers: range) -> Iterator[Matrix]:
    latent = architecture.latent
    if latent is not None:
        yield from _latent_attention(architecture, latent, layers)
        return
    hidden, parts = architecture.hidden, architecture.parts
    queries = architecture.heads * architecture.head_dim
    keys = architecture.kv_heads * architecture.head_dim
    yield _linear("query", hidden * queries, layers)
    yield _linear("key and value", 2 * hidden * keys, layers, division="kv_heads")
    yield _linear("attention output", queries * hidden, layers)
    yield _kept(
        "attention biases",
        (queries + 2 * keys) * ("qkv_bias" in parts)
        + hidden * ("output_bias" in parts)
        + architecture.heads * ("attention_sinks" in parts),
        layers,
    )


def _latent_attention(
    architecture: Architecture, latent: LatentAttention, layers: range
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
        return
    dense, mixed = layers[: experts.leading_dense_layers], layers[experts.leading_dense_layers :]
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
    yield _kept("router", router, layers)


def _mlp(architecture: Architecture, intermediate: int) -> int:
    """Gate, up and down projection; two matrices where there is no gate."""
    matrices = 2 if "plain_mlp" in architecture.parts else 3
    return matrices * architecture.hidden * intermediate


def _norms(architecture: Architecture) -> int:
    blocks = 4 if "post_norms" in architecture.parts else 2
    heads = 2 * architecture.head_dim * ("qk_norm" in architecture.parts)
    return blocks * architecture.hidden + heads


def _linear(name: str, parameters: int, layers: range, *, division: Division = "tensor") -> Matrix:
    return Matrix(
        name=name,
        parameters=parameters,
        layers=layers,
        division=division,
        kind="linear",
        active=parameters,
    )


def _kept(name: str, parameters: int, layers: range) -> Matrix:
    return Matrix(
        name=name,
        parameters=parameters,
        layers=layers,
        division="replicated",
        kind="kept",
        active=parameters,
    )
