"""Weights on one device of a vLLM replica, and by how much they may be more or less."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from slipway.architectures.parameters import (
    Matrix,
    input_parameters,
    kv_heads_per_device,
    layer_matrices,
    output_parameters,
)
from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout
from slipway.planner.quantization import Scheme, scheme_of, weight_bytes
from slipway.planner.units import MIB

from .activations import ACTIVATION_BYTES
from .parallelism import expert_slices, stage_layers

# Errors of the weights in starts of servers (docs/benchmarks/memory.md), rounded up: a share of the
# weights, and a constant that counts for small models.
DENSE_WEIGHTS_ERROR = 0.02
OTHER_WEIGHTS_ERROR = 0.05
UNKNOWN_GROUP_ERROR = 0.10
WEIGHTS_ERROR_BYTES = 32 * MIB
MOST_WEIGHTS_ERROR = 0.10


def loaded_weights(architecture: Architecture, weights: str, layout: Layout) -> tuple[int, int]:
    """(bytes on the fullest device, their error in both directions).

    Where the checkpoint's own files say its bytes, devices share these. What quantized checkpoints
    leave in 16 bits differs between them. Whether experts are padded differs between devices and
    releases, so all of the padding is in doubt.
    """
    scheme = scheme_of(architecture, weights)
    loaded, share = device_weight_bytes(architecture, scheme, layout), _error(architecture, scheme)
    stated = architecture.published_bytes
    if stated is not None and is_exact(architecture, weights):
        share = 0.0
        loaded = math.ceil(loaded * stated.size_bytes / weight_bytes(architecture, scheme))
    loaded += rotation_bytes(architecture)
    padding = 1 - 1 / _expert_padding(architecture, scheme, layout)
    error = max(share, padding) * loaded + WEIGHTS_ERROR_BYTES
    return loaded, math.ceil(min(MOST_WEIGHTS_ERROR * loaded, error))


def _error(architecture: Architecture, scheme: Scheme) -> float:
    """Of weights that are counted, as a share."""
    if not scheme.is_group_fixed and architecture.quantization_group is None:
        return UNKNOWN_GROUP_ERROR
    plain = scheme.bits >= 8 and architecture.experts is None
    return DENSE_WEIGHTS_ERROR if plain else OTHER_WEIGHTS_ERROR


def is_exact(architecture: Architecture, weights: str) -> bool:
    """Whether the bytes of these weights were read from the checkpoint's own files."""
    return architecture.published_bytes is not None and weights == architecture.published_weights


def device_weight_bytes(architecture: Architecture, scheme: Scheme, layout: Layout) -> int:
    """Weights on the fullest device, which is in the pipeline stage with the most."""
    stages = stage_layers(architecture.layers, layout.pipeline)
    return max(
        math.ceil(
            _layer_weights(architecture, scheme, layout, stage)
            + _outer_weights(architecture, scheme, layout, stage)
        )
        for stage in stages
    )


def rotation_bytes(architecture: Architecture) -> int:
    """Cosines and sines of every position up to the context, for half of a head's rotated
    dimensions each (vllm/model_executor/layers/rotary_embedding/base.py). Every device has one
    table for all its layers, which is in the memory that loading takes."""
    if architecture.learned_positions is not None:
        return 0
    latent = architecture.latent
    rotated = latent.rope_dimensions if latent else architecture.head_dim
    return architecture.context * rotated * ACTIVATION_BYTES


def _layer_weights(
    architecture: Architecture, scheme: Scheme, layout: Layout, stage: range
) -> float:
    return sum(
        _shared_by(matrix, architecture, layout)
        * matrix.parameters
        * _overlap(matrix.layers, stage)
        * scheme.bytes_per_parameter(matrix.kind)
        * (_expert_padding(architecture, scheme, layout) if matrix.kind == "expert" else 1)
        for matrix in layer_matrices(architecture)
    )


def _expert_padding(architecture: Architecture, scheme: Scheme, layout: Layout) -> float:
    """How many times larger the engine makes an expert, so that its kernels can divide it."""
    experts = architecture.experts
    if experts is None:
        return 1.0
    slice_size = experts.intermediate / expert_slices(layout)
    ratios = (
        math.ceil(size / multiple) * multiple / size
        for size, multiple in zip(
            (architecture.hidden, slice_size), scheme.expert_padding, strict=True
        )
    )
    return math.prod(ratios)


def _outer_weights(
    architecture: Architecture, scheme: Scheme, layout: Layout, stage: range
) -> float:
    """Token and logits table, each divided over the tensor-parallel group; a tied one is held
    once where both ends are on one stage. Vision towers are counted whole."""
    first, last = stage.start == 0, stage.stop == architecture.layers
    vision = architecture.vision_parameters or 0
    table = architecture.vocabulary * architecture.hidden
    parameters = 0.0
    if first:
        parameters += (input_parameters(architecture) - vision) / layout.tensor + vision
    if last:
        tied = first and architecture.tied_embeddings
        parameters += (output_parameters(architecture) - tied * table) / layout.tensor
    return parameters * scheme.kept_bytes


def _shared_by(matrix: Matrix, architecture: Architecture, layout: Layout) -> float:
    """The share of a matrix that one device holds."""
    if matrix.division == "tensor":
        return 1 / layout.tensor
    if matrix.division == "kv_heads":
        return kv_heads_per_device(architecture, layout.tensor) / architecture.kv_heads
    if matrix.division == "experts" and architecture.experts is not None:
        held = math.ceil(architecture.experts.count / layout.expert)
        return held / architecture.experts.count / expert_slices(layout)
    return 1.0


def _overlap(layers: Sequence[int], stage: range) -> int:
    """How many of the ascending `layers` are in the stage."""
    return bisect_left(layers, stage.stop) - bisect_left(layers, stage.start)
