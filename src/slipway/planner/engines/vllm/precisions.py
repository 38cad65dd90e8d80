"""Which precisions vLLM can run a model in on an accelerator, and why others are refused.

The rules are those of vLLM 0.32. Weights in FP8 run everywhere: without FP8 arithmetic they are
unpacked to 16 bits (vllm/model_executor/layers/quantization/fp8.py), which the roofline accounts
for as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.memory import DTYPE_SCHEMES
from slipway.planner.memory.quantization import SCHEMES

ENGINE_VENDORS = {"nvidia", "amd"}  # vendors that the vLLM of services/triton_vllm supports
FLASHINFER_HEAD_SIZES = frozenset({64, 128, 256, 512})  # vllm/v1/attention/backends/flashinfer.py


def is_quantized(weights: str) -> bool:
    """Whether a scheme has fewer bits than every dtype."""
    return weights not in DTYPE_SCHEMES.values()


def published_problems(architecture: Architecture, weights: str) -> tuple[str, ...]:
    """Why the weights cannot be in this scheme.

    vLLM does not quantize weights that are already quantized: it refuses to, or, for mxfp4, loads
    them as published (_verify_quantization in vllm/config/model.py). Other checkpoints with as many
    bits gain nothing.
    """
    published = architecture.published_weights
    is_cast = not is_quantized(weights) and not is_quantized(published)
    if weights == published or is_cast or SCHEMES[weights].bits < SCHEMES[published].bits:
        return ()
    return (f"the model is published in {published}, which has no more bits than {weights}",)


def dtype_problems(architecture: Architecture, weights: str, dtype: str) -> tuple[str, ...]:
    """Why vLLM would not start with this dtype.

    Quantized weights need 16 bits, mxfp4 needs bfloat16 (get_supported_act_dtypes in
    vllm/model_executor/layers/quantization). The models with norms after attention and MLP are
    unstable in float16 (_FLOAT16_NOT_SUPPORTED_MODELS in vllm/config/model.py).
    """
    if dtype == "fp16" and "post_norms" in architecture.parts:
        return ("vLLM does not run this model in float16, in which it is numerically unstable",)
    if weights == "mxfp4" and dtype != "bf16":
        return ("vLLM runs mxfp4 weights in bfloat16 only",)
    if is_quantized(weights) and dtype == "fp32":
        return (f"vLLM runs {weights} weights in 16 bits only",)
    return ()


def dtype_of(precision: Precision) -> str:
    """The dtype of a precision: that of its weights, else of its KV cache, else the usual one."""
    plain = (each for each in (precision.weights, precision.kv) if not is_quantized(each))
    return next(plain, "bf16")


def engine_problems(name: str, accelerator: Accelerator) -> tuple[str, ...]:
    """Why Slipway has no engine for this accelerator."""
    if accelerator.vendor in ENGINE_VENDORS:
        return ()
    return (f"{name} needs Neuron's own vLLM, which Slipway does not include",)


def precision_problems(
    architecture: Architecture, accelerator: Accelerator, layout: Layout, precision: Precision
) -> tuple[str, ...]:
    """Every reason why vLLM would refuse this precision, besides those of `layout_problems`."""
    return (
        *_group_problems(architecture, layout.tensor, precision.weights),
        *_cache_problems(architecture, accelerator, precision.kv),
    )


def _group_problems(architecture: Architecture, tensor: int, weights: str) -> Iterator[str]:
    """Weights that are quantized together must be on one device
    (verify_group_size_divides_partition in vllm/distributed/utils.py)."""
    group = SCHEMES[weights].split_multiple
    if group is None:
        return
    latent = architecture.latent
    value_dimensions = latent.value_dimensions if latent else architecture.head_dim
    attention = architecture.heads * value_dimensions
    if architecture.hidden % group:
        yield (
            f"a hidden size of {architecture.hidden} is not a multiple of the group of {group} that"
            f" {weights} quantizes together"
        )
    if attention % tensor == 0 and attention // tensor % group:
        yield (
            f"attention of {attention} over {tensor} devices is {attention // tensor}, not a"
            f" multiple of the group of {group} that {weights} quantizes together"
        )


def _cache_problems(architecture: Architecture, accelerator: Accelerator, kv: str) -> Iterator[str]:
    """Without FP8 arithmetic only FlashInfer reads an FP8 cache: FlashAttention needs Hopper
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
