"""Memory of a replica: weights, KV cache, and what the engine itself needs.

The KV cache of a layer is what vLLM allocates (vllm/v1/kv_cache_interface.py: full attention,
sliding window, latent attention). The numbers are checked against known models in
tests/unit/planner/test_memory.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.platform import MemoryEstimate

MIB = 2**20
GIB = 2**30

BYTES_PER_VALUE = {"float32": 4, "bfloat16": 2, "float16": 2}

# A vLLM CPU replica (Triton, stub, API server, engine core, worker) of SmolLM2-135M in float32
# with 1 GiB of KV cache: 4.7 GB of RSS summed, 3.95 GB of PSS (measured 2026-11-21, vLLM 0.32,
# 2 cores). Less weights (0.54 GB) and KV (1.07 GB) that leaves 3.1 GB; rounded up.
CPU_ENGINE_OVERHEAD_BYTES = 3 * GIB

# The simulator holds no weights and no cache, only bookkeeping: a budget, not a measurement.
SIM_REPLICA_BYTES = 200 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """How a model is split: over `tensor` devices per layer and `pipeline` groups of layers."""

    tensor: int = 1
    pipeline: int = 1


ONE_DEVICE = Sharding()


def weights_bytes(architecture: Architecture, *, bytes_per_parameter: float) -> int:
    """All parameters: 4 bytes in float32, 2 in bfloat16, 1 in FP8, about 0.56 in 4 bits with
    scales. Every expert of a mixture is resident.
    """
    return math.ceil(architecture.parameters * bytes_per_parameter)


def kv_bytes_per_token(
    architecture: Architecture, *, bytes_per_value: int, sharding: Sharding = ONE_DEVICE
) -> int:
    """KV cache of one token on one device, every layer counted.

    Grouped-query attention: 2 (K and V) · layers · kv_heads · head_dim · bytes. Under tensor
    parallelism heads are divided, and replicated once there are more devices than heads.
    Latent attention (DeepSeek-V2, arXiv 2405.04434 §2.1): layers · (kv_lora_rank + rope) ·
    bytes, replicated on every device.
    """
    layers = math.ceil(architecture.layers / sharding.pipeline)
    return layers * _layer_bytes(architecture, bytes_per_value, sharding)


def kv_bytes(
    architecture: Architecture,
    *,
    tokens: int,
    bytes_per_value: int,
    sharding: Sharding = ONE_DEVICE,
) -> int:
    """KV cache of one sequence on one device. Sliding-window layers stop growing at the window."""
    per_layer = _layer_bytes(architecture, bytes_per_value, sharding)
    window = architecture.sliding_window
    windowed = window.layers if window else 0
    full = architecture.layers - windowed
    layer_tokens = full * tokens + windowed * min(tokens, window.tokens if window else 0)
    return math.ceil(layer_tokens / sharding.pipeline) * per_layer


def kv_budget_bytes(
    accelerator: Accelerator,
    architecture: Architecture,
    *,
    bytes_per_parameter: float,
    sharding: Sharding = ONE_DEVICE,
    utilization: float = 0.9,
    runtime_bytes: int = 2 * GIB,
) -> int:
    """What one device has left for the KV cache; negative when the weights alone do not fit.

    utilization · memory - weights / (tensor · pipeline) - runtime. `utilization` is vLLM's
    gpu_memory_utilization; `runtime_bytes` stands for peak activations (0.5 to 4 GiB), CUDA
    graphs (0.3 to 2 GiB) and contexts, to be replaced by a profile of the model.
    """
    usable = utilization * accelerator.memory_mib * MIB
    weights = weights_bytes(architecture, bytes_per_parameter=bytes_per_parameter)
    return math.floor(usable - weights / (sharding.tensor * sharding.pipeline) - runtime_bytes)


def tensor_parallel_problem(architecture: Architecture, tensor: int) -> str | None:
    """Why vLLM refuses to split this model over `tensor` devices, None when it does not."""
    heads, kv_heads = architecture.heads, architecture.kv_heads
    if heads % tensor:
        return f"{heads} attention heads cannot be divided by {tensor}"
    if kv_heads % tensor and tensor % kv_heads:
        return f"{kv_heads} KV heads neither divide nor are divided by {tensor}"
    return None


def cpu_replica(architecture: Architecture, *, dtype: str, kv_cache_bytes: int) -> MemoryEstimate:
    """A vLLM replica on a CPU pool."""
    width = BYTES_PER_VALUE[dtype]
    weights = weights_bytes(architecture, bytes_per_parameter=width)
    per_token = kv_bytes_per_token(architecture, bytes_per_value=width)
    return MemoryEstimate(
        parameters=architecture.parameters,
        weights_bytes=weights,
        kv_bytes_per_token=per_token,
        kv_cache_bytes=kv_cache_bytes,
        kv_tokens=kv_cache_bytes // per_token,
        overhead_bytes=CPU_ENGINE_OVERHEAD_BYTES,
        total_bytes=weights + kv_cache_bytes + CPU_ENGINE_OVERHEAD_BYTES,
    )


def simulated_replica(
    architecture: Architecture, *, kv_bytes_per_token: int, kv_cache_bytes: int
) -> MemoryEstimate:
    """A simulated replica: the KV cache is only counted, so it is no part of the total."""
    return MemoryEstimate(
        parameters=architecture.parameters,
        weights_bytes=0,
        kv_bytes_per_token=kv_bytes_per_token,
        kv_cache_bytes=kv_cache_bytes,
        kv_tokens=kv_cache_bytes // kv_bytes_per_token,
        overhead_bytes=SIM_REPLICA_BYTES,
        total_bytes=SIM_REPLICA_BYTES,
    )


def _layer_bytes(architecture: Architecture, bytes_per_value: int, sharding: Sharding) -> int:
    latent = architecture.latent
    if latent is not None:
        return (latent.kv_lora_rank + latent.rope_dimensions) * bytes_per_value
    kv_heads = max(1, math.ceil(architecture.kv_heads / sharding.tensor))
    return 2 * kv_heads * architecture.head_dim * bytes_per_value
