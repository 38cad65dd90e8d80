"""Which precisions vLLM can run a model in on an accelerator, and why others are refused.

The rules are those of vLLM 0.32. What runs, and is not refused:

* FP8 weights without FP8 arithmetic and NVFP4 weights without that of Blackwell: they are unpacked
  to 16 bits (MarlinFP8ScaledMMLinearKernel, MarlinNvFp4LinearKernel and, on AMD,
  EmulationNvFp4LinearKernel in vllm/model_executor/kernels/linear).
* Sides that are no multiple of a kernel's tile: they are padded (marlin_padded_nk in
  vllm/model_executor/layers/quantization/utils/marlin_utils.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.memory import DTYPE_SCHEMES
from slipway.planner.engines.vllm.parallelism import expert_slices
from slipway.planner.quantization import SCHEMES
from slipway.planner.wording import counted

ENGINE_VENDORS = {"nvidia", "amd"}  # vendors that the vLLM of services/triton_vllm supports
# Compute capabilities that vLLM asks for: of bfloat16 (check_if_supports_dtype in
# vllm/platforms/cuda.py, which casts it to float16 where nothing else is stated), of mxfp4
# (get_min_capability in vllm/model_executor/layers/quantization/mxfp4.py), of FlashInfer
# (vllm/v1/attention/backends/flashinfer.py).
BFLOAT16_CAPABILITY = 8.0
MXFP4_CAPABILITY = 8.0
FLASHINFER_CAPABILITY = 8.0
FP8_BLOCK = 128  # side of the blocks of fp8-block (DeepSeek-V3, arXiv 2412.19437 §3.3)
FLASHINFER_HEAD_SIZES = frozenset({64, 128, 256, 512})  # vllm/v1/attention/backends/flashinfer.py


def is_quantized(weights: str) -> bool:
    """Whether a scheme has fewer bits than every dtype."""
    return weights not in DTYPE_SCHEMES.values()


def published_problems(architecture: Architecture, weights: str) -> tuple[str, ...]:
    """Why the weights cannot be in this scheme, or gain nothing from it.

    vLLM does not quantize weights that are already quantized: it refuses to, or, for mxfp4, loads
    them as published (_verify_quantization in vllm/config/model.py). Other checkpoints with as many
    bits gain nothing.

    MXFP4 is planned as published checkpoints have it: in experts only
    (vllm/model_executor/layers/quantization/mxfp4.py). Where the checkpoint is plain, vLLM would
    quantize it while loading, and other layers too (_ONLINE_SHORTHANDS in
    vllm/config/quantization.py).
    """
    published = architecture.published_weights
    is_cast = not is_quantized(weights) and not is_quantized(published)
    if weights == published or is_cast:
        return ()
    if SCHEMES[weights].bits >= SCHEMES[published].bits:
        return (
            f"{weights} gains nothing: the model is published in {published}, which has as few bits"
            " or fewer",
        )
    if weights == "mxfp4":
        return (
            "Slipway plans published MXFP4 checkpoints, which pack experts only; quantizing while"
            " loading is not planned",
        )
    return ()


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
    """Why Slipway serves nothing on this accelerator."""
    if accelerator.vendor in ENGINE_VENDORS:
        return ()
    return (f"not served here: {name} needs Neuron's own vLLM, which Slipway does not include",)


def precision_problems(
    architecture: Architecture, accelerator: Accelerator, layout: Layout, precision: Precision
) -> tuple[str, ...]:
    """Every reason why vLLM would refuse this precision, besides those of `layout_problems`."""
    return (
        *_group_problems(architecture, layout.tensor, precision.weights),
        *_block_problems(architecture, layout.tensor, precision.weights),
        *_cut_block_problems(architecture, accelerator, layout, precision.weights),
        *_capability_problems(architecture, accelerator, precision.weights),
        *_cache_dtype_problems(precision),
        *_cache_problems(architecture, accelerator, precision.kv),
    )


def _group_problems(architecture: Architecture, tensor: int, weights: str) -> Iterator[str]:
    """Weights that are quantized together are on one device, and whole groups fill a side:
    auto_awq.py and utils/fp8_utils.py (of weights and of activations) in
    vllm/model_executor/layers/quantization, modelopt.py there for nvfp4."""
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
            f"attention of {attention} over {counted(tensor, 'device')} is"
            f" {attention // tensor}, not a multiple of the group of {group} that"
            f" {weights} quantizes together"
        )


def _block_problems(architecture: Architecture, tensor: int, weights: str) -> Iterator[str]:
    """Blocks cover outputs too, so each device has whole blocks of queries, keys and values
    (validate_fp8_block_shape in vllm/model_executor/layers/quantization/utils/fp8_utils.py)."""
    if weights != "fp8-block" or architecture.heads % tensor:
        return
    for name, size in _attention_outputs(architecture, tensor):
        if size % FP8_BLOCK:
            yield (
                f"{name} of {size} on each device are not a multiple of the block of {FP8_BLOCK}"
                f" that {weights} quantizes together"
            )


def _attention_outputs(architecture: Architecture, tensor: int) -> Iterator[tuple[str, int]]:
    """(what, its size on each device) for the projections whose sizes vLLM checks: those divided
    over devices and all but the last of those merged into one."""
    heads, latent = architecture.heads // tensor, architecture.latent
    if latent is None:
        yield "queries", heads * architecture.head_dim
        yield "keys", kv_heads_per_device(architecture, tensor) * architecture.head_dim
    elif tensor > 1:
        yield "queries", heads * (latent.nope_dimensions + latent.rope_dimensions)
        yield "keys and values", heads * (latent.nope_dimensions + latent.value_dimensions)


def _cut_block_problems(
    architecture: Architecture, accelerator: Accelerator, layout: Layout, weights: str
) -> Iterator[str]:
    """Blocks of experts that are cut get smaller ones, which only the Triton kernels take, and they
    need FP8 arithmetic (refine_fp8_moe_block_shape in
    vllm/model_executor/layers/fused_moe/oracle/fp8.py; experts/triton_moe.py)."""
    experts = architecture.experts
    if weights != "fp8-block" or experts is None or accelerator.fp8_tflops is not None:
        return
    size = experts.intermediate // expert_slices(layout)
    if size % FP8_BLOCK:
        yield (
            f"without FP8 arithmetic no kernel takes experts of {size} on each device, which cut"
            f" the blocks of {FP8_BLOCK} that {weights} quantizes together"
        )


def _capability_problems(
    architecture: Architecture, accelerator: Accelerator, weights: str
) -> Iterator[str]:
    capability = accelerator.compute_capability
    if capability is None:
        return
    if weights == "mxfp4" and capability < MXFP4_CAPABILITY:
        yield f"vLLM runs mxfp4 from compute capability {MXFP4_CAPABILITY} on, not on {capability}"
    unstable = "post_norms" in architecture.parts  # in float16, as in dtype_problems
    if unstable and weights != "fp32" and capability < BFLOAT16_CAPABILITY:
        yield (
            f"a device of compute capability {capability} has no bfloat16, and vLLM does not run"
            " this model in float16: it runs in float32 only"
        )


def _cache_dtype_problems(precision: Precision) -> Iterator[str]:
    """CacheDType in vllm/config/cache.py has no float32: the cache has it as the model's dtype."""
    if precision.kv == "fp32" and precision.weights != "fp32":
        yield "vLLM has a KV cache in float32 only where the model runs in float32"


def _cache_problems(architecture: Architecture, accelerator: Accelerator, kv: str) -> Iterator[str]:
    """Without FP8 arithmetic only FlashInfer reads an FP8 cache: FlashAttention needs Hopper
    (fa_utils.py in vllm/v1/attention/backends), the Triton kernels compute capability 8.9
    (triton_attn.py, mla/triton_mla.py)."""
    if kv != "fp8" or accelerator.fp8_tflops is not None:
        return
    lacking = "without FP8 arithmetic no kernel reads an FP8 KV cache"
    capability = accelerator.compute_capability
    if capability is not None and capability < FLASHINFER_CAPABILITY:
        yield f"{lacking} on compute capability {capability}"
        return
    if architecture.latent is not None:
        yield f"{lacking} of latent attention"
    if "attention_sinks" in architecture.parts:
        yield f"{lacking} with attention sinks"
    if architecture.latent is None and architecture.head_dim not in FLASHINFER_HEAD_SIZES:
        yield f"{lacking} with heads of {architecture.head_dim}"
