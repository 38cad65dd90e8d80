"""The memory that one step of vLLM takes besides weights and KV cache."""

from __future__ import annotations

import math

from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import Architecture, MixtureOfExperts
from slipway.plan.figures import Layout
from slipway.planner.quantization import ExpertKernel

from .parallelism import expert_slices
from .releases import NEWEST, Release

ACTIVATION_BYTES = 2
# DeepGEMM computes each expert's tokens in blocks of so many rows
# (get_mk_alignment_for_contiguous_layout in vllm/utils/deep_gemm.py).
DEEPGEMM_ROWS = 128


def activation_bytes(
    architecture: Architecture,
    *,
    layout: Layout,
    kernel: ExpertKernel,
    tokens: int,
    sequences: int,
    release: Release = NEWEST,
) -> int:
    """Peak of one step of `tokens` tokens: the widest part of a layer, or the sampler.

    A part holds the residual, its input and its output (3 · hidden) beside its inner values, which
    tensor parallelism divides; layers run one after the other, so one counts. The sampler has the
    logits of every sequence on every device. Experts compute in buffers that stay allocated
    beside both, where `release` keeps them or `kernel` is DeepGEMM's
    (vllm/model_executor/layers/fused_moe/modular_kernel.py).
    """
    attention, mlp = _attention_values(architecture, layout), _mlp_values(architecture, layout)
    experts = architecture.experts
    routed = _expert_values(architecture, experts, layout, kernel, tokens) if experts else 0.0
    sampler = sequences * architecture.vocabulary * release.logit_bytes
    if release.keeps_expert_buffers or kernel == "deepgemm":
        layer = tokens * (3 * architecture.hidden + max(attention, mlp))
        return math.ceil(ACTIVATION_BYTES * routed + max(ACTIVATION_BYTES * layer, sampler))
    layer = max(tokens * attention, tokens * mlp + routed)
    return max(math.ceil(ACTIVATION_BYTES * (3 * tokens * architecture.hidden + layer)), sampler)


def _attention_values(architecture: Architecture, layout: Layout) -> float:
    """Queries, keys, values and the result, per token."""
    heads, latent = architecture.heads / layout.tensor, architecture.latent
    if latent is None:
        kv_heads = kv_heads_per_device(architecture, layout.tensor)
        return (2 * heads + 2 * kv_heads) * architecture.head_dim
    queries = latent.nope_dimensions + latent.rope_dimensions
    return heads * (2 * queries + 2 * latent.value_dimensions)


def _mlp_values(architecture: Architecture, layout: Layout) -> float:
    """Gate and up projections and their product, per token; of shared experts in a mixture."""
    experts = architecture.experts
    intermediate = architecture.intermediate
    if experts is not None:
        intermediate = experts.shared * experts.intermediate
    return 3 * intermediate / layout.tensor


def _expert_values(
    architecture: Architecture,
    experts: MixtureOfExperts,
    layout: Layout,
    kernel: ExpertKernel,
    tokens: int,
) -> float:
    """Of the experts of all tokens: gate and up projections, in whose place the outputs come, and
    their product, which all kernels but Marlin give a buffer as wide as an output
    (`workspace_shapes` in vllm/model_executor/layers/fused_moe/experts)."""
    hidden, slice_ = architecture.hidden, experts.intermediate / expert_slices(layout)
    product = slice_ if kernel == "marlin" else max(slice_, hidden)
    rows = tokens * experts.per_token
    if kernel == "deepgemm":
        rows += math.ceil(experts.count / layout.expert) * (DEEPGEMM_ROWS - 1)
    return rows * (max(2 * slice_, hidden) + product)
