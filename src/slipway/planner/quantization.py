"""Bytes of weights and KV cache values by quantization scheme."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from slipway.architectures.parameters import Kind, count, layer_matrices
from slipway.config.catalog import Architecture
from slipway.plan.figures import Precision

# The kernels that engines compute quantized experts with: they differ in the buffers they need.
ExpertKernel = Literal["triton", "marlin", "deepgemm"]

_ALL_MATRICES: frozenset[Kind] = frozenset({"linear", "expert"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How weights are packed: `bits` each, and `group_bits` of scale and zero point per group.

    `packed` are the kinds of matrices it packs; embeddings, logits table, norms, biases, routers
    and vision towers stay at `kept_bytes` a parameter. Products are computed in `activation_bits`.
    On every device, each side of a matrix must be a multiple of `split_multiple`, None where
    engines pad or accept any; `expert_multiple` is that of experts where it differs. Engines pad
    an expert's hidden and intermediate sizes on every device to multiples of `expert_padding`.
    Where a group is not fixed, checkpoints have smaller ones than `group` too.
    """

    bits: int
    group: int = 1
    group_bits: int = 0
    packed: frozenset[Kind] = _ALL_MATRICES
    kept_bytes: int = 2
    activation_bits: int = 16
    split_multiple: int | None = None
    expert_multiple: int | None = None
    expert_padding: tuple[int, int] = (1, 1)
    expert_kernel: ExpertKernel = "triton"
    is_group_fixed: bool = True
    numbers: Literal["float", "integer"] = "float"

    @property
    def bytes_per_weight(self) -> float:
        """Bytes per packed weight, scales included."""
        return (self.bits + self.group_bits / self.group) / 8

    def bytes_per_parameter(self, kind: Kind) -> float:
        return self.bytes_per_weight if kind in self.packed else self.kept_bytes


# Integers in groups, with a scale of 16 bits and a zero point of 4.
_GROUPED_INT4 = Scheme(
    bits=4,
    group=128,
    group_bits=20,
    split_multiple=128,
    expert_multiple=32,
    expert_kernel="marlin",
    is_group_fixed=False,
)

# awq, gptq: groups of 128 along the input, a 16-bit scale and a 4-bit zero point each (AWQ,
# arXiv 2306.00978; the GPTQ checkpoints of AutoGPTQ). w4a16: compressed-tensors, which has no zero
# points for symmetric weights (compressed_tensors_wNa16.py in
# vllm/model_executor/layers/quantization/compressed_tensors/schemes). fp8, int8: a scale per tensor
# or channel, which is negligible. fp8-block: a float32 per 128 x 128 block (DeepSeek-V3,
# arXiv 2412.19437 §3.3). nvfp4: an FP8 scale per 16; mxfp4: an 8-bit exponent per 32 (OCP
# Microscaling 1.0), in gpt-oss for experts only, which vLLM pads for Marlin's kernels
# (vllm/model_executor/layers/fused_moe/oracle/mxfp4.py). Groups of experts that a slice cuts are
# halved, down to 32 (vllm/model_executor/layers/quantization/moe_wna16.py), blocks too
# (refine_fp8_moe_block_shape in vllm/model_executor/layers/fused_moe/oracle/fp8.py).
SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        "fp32": Scheme(bits=32, kept_bytes=4, activation_bits=32),
        "bf16": Scheme(bits=16),
        "fp16": Scheme(bits=16),
        "fp8": Scheme(bits=8, activation_bits=8),
        "fp8-block": Scheme(
            bits=8,
            group=128 * 128,
            group_bits=32,
            activation_bits=8,
            split_multiple=128,
            expert_multiple=32,
            expert_kernel="deepgemm",
        ),
        "int8": Scheme(bits=8, activation_bits=8, numbers="integer"),
        "awq": _GROUPED_INT4,
        "gptq": _GROUPED_INT4,
        "w4a16": replace(_GROUPED_INT4, group_bits=16),
        "w4a16-asym": _GROUPED_INT4,
        "nvfp4": Scheme(bits=4, group=16, group_bits=8, activation_bits=4, split_multiple=16),
        "mxfp4": Scheme(
            bits=4,
            group=32,
            group_bits=8,
            packed=frozenset({"expert"}),
            expert_padding=(256, 128),
            expert_kernel="marlin",
        ),
    }
)

# vLLM's --kv-cache-dtype
KV_BYTES: Mapping[str, int] = MappingProxyType({"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1})


def scheme_of(architecture: Architecture, weights: str) -> Scheme:
    """The scheme with the group that the published weights have."""
    scheme, group = SCHEMES[weights], architecture.quantization_group
    return replace(scheme, group=group) if group else scheme


def weight_bytes(architecture: Architecture, scheme: Scheme) -> int:
    """All weights of one copy of the model. Every expert of a mixture is resident."""
    layers = sum(
        matrix.parameters * len(matrix.layers) * scheme.bytes_per_parameter(matrix.kind)
        for matrix in layer_matrices(architecture)
    )
    in_layers = sum(
        matrix.parameters * len(matrix.layers) for matrix in layer_matrices(architecture)
    )
    outside = count(architecture).total - in_layers
    return math.ceil(layers + outside * scheme.kept_bytes)


def describe_precision(precision: Precision) -> str:
    """In words: "fp8 weights, bf16 KV"."""
    return f"{precision.weights} weights, {precision.kv} KV"
