"""Which precisions vLLM runs with a model on an accelerator, and why not otherwise.

The rules are those of vLLM 0.32. Weights in FP8 run everywhere: without FP8 arithmetic they are
unpacked to 16 bits (vllm/model_executor/layers/quantization/fp8.py), as the roofline counts too.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.capacity import Layout, Precision

from .quantization import SCHEMES

ENGINE_VENDORS = {"nvidia", "amd"}  # whose accelerators the vLLM of services/triton_vllm knows
FLASHINFER_HEAD_SIZES = frozenset({64, 128, 256, 512})  # vllm/v1/attention/backends/flashinfer.py


def describe(precision: Precision) -> str:
    """In words: "fp8 weights, bf16 KV"."""
    return f"{precision.weights} weights, {precision.kv} KV"


def engine_problems(name: str, accelerator: Accelerator) -> tuple[str, ...]:
    """Why no engine of Slipway's runs on the accelerator of this name."""
    if accelerator.vendor in ENGINE_VENDORS:
        return ()
    return (f"{name} needs Neuron's own vLLM, which is not served here",)


def precision_problems(
    architecture: Architecture, accelerator: Accelerator, layout: Layout, precision: Precision
) -> tuple[str, ...]:
    """Every reason why vLLM refuses this precision, besides those of `layout_problems`."""
    return (
        *_group_problems(architecture, layout.tensor, precision.weights),
        *_cache_problems(architecture, accelerator, precision.kv),
    )


def _group_problems(architecture: Architecture, tensor: int, weights: str) -> Iterator[str]:
    """Weights that are quantized together lie on one device
    (verify_group_size_divides_partition in vllm/distributed/utils.py)."""
    group = SCHEMES[weights].split_multiple
    if group is None:
        return
    latent = architecture.latent
    value_dimensions = latent.value_dimensions if latent else architecture.head_dim
    attention = architecture.heads * value_dimensions
    if architecture.hidden % group:
        yield (
            f"a hidden size of {architecture.hidden} is no multiple of the group of {group} that"
            f" {weights} quantizes together"
        )
    if attention % tensor == 0 and attention // tensor % group:
        yield (
            f"attention of {attention} over {tensor} devices is {attention // tensor}, no multiple"
            f" of the group of {group} that {weights} quantizes together"
        )


def _cache_problems(architecture: Architecture, accelerator: Accelerator, kv: str) -> Iterator[str]:
    """Without FP8 arithmetic only FlashInfer reads an FP8 cache: FlashAttention wants Hopper
    (fa_utils.py in vllm/v1/attention/backends), the Triton kernels compute capability 8.9
    (triton_attn.py, mla/triton_mla.py)."""
    if kv != "fp8" or accelerator.fp8_tflops is not None:
        return
    lacking = "without FP8 arithmetic no kernel reads an FP8 KV cache"
    if architecture.latent is not None:
        yield f"{lacking} of latent attention"
    if "attention_sinks" in architecture.parts:
        yield f"{lacking} with attention sinks"
    if architecture.latent is None and architecture.head_dim not in FLASHINFER_HEAD_SIZES:
        yield f"{lacking} with heads of {architecture.head_dim}"
