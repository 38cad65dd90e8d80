"""Memory of one device of a vLLM replica: weights, KV cache, and what the engine itself needs.

A constant that was not measured here names its source in a comment. The formulas are checked
against known models (test_memory.py in tests/unit/planner/engines/vllm), against aiconfigurator
(test_aiconfigurator_memory.py) and against what servers printed (test_observed.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from slipway.architectures.padding import padded
from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.figures import DeviceMemory, Layout, Precision
from slipway.planner.engines.adapter import LoraAdapters, MemorySources
from slipway.planner.engines.processor_memory import memory_on_processors
from slipway.planner.quantization import (
    KV_BYTES,
    SCHEMES,
    scheme_of,
    weight_bytes,
)
from slipway.planner.units import GIB, MIB

from .activations import ACTIVATION_BYTES, activation_bytes
from .kv_cache import in_flight_tokens, is_mixed, kv_bytes_per_token, sequence_memory
from .releases import NEWEST, Release
from .weights import device_weight_bytes, is_exact, loaded_weights

# A vLLM CPU replica (Triton, stub, API server, engine core, worker) of SmolLM2-135M in float32
# with 1 GiB of KV cache: 4.7 GB of RSS summed, 3.95 GB of PSS (measured 2026-11-21, vLLM 0.32,
# 2 cores). Less weights (0.54 GB) and KV (1.07 GB) that leaves 3.1 GB, rounded up. PSS is 3.4 GB
# without a worker, but `engine_args` may ask for one.
CPU_ENGINE_OVERHEAD_BYTES = 3 * GIB

DTYPE_SCHEMES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}

# Memory that a start takes outside torch after the CUDA context is made (0.13 GiB on an H100,
# llm-d/llm-d-benchmark#622). The context itself is in the memory that the utilization leaves.
RUNTIME_BYTES = 133 * MIB

# NCCL's and the custom all-reduce's buffers: observed by aiconfigurator 0.8.0 (systems/*.yaml,
# nccl_mem) for 2 devices and for more.
PAIR_BUFFER_BYTES = 342 * MIB
GROUP_BUFFER_BYTES = 392 * MIB

# CUDA graphs of vLLM's capture sizes: a pool and a size per layer. An estimate, chosen to match
# known deployments (a 7B model 0.6 GiB, a 70B model 0.8).
GRAPH_POOL_BYTES = 460 * MIB
GRAPH_BYTES_PER_LAYER = 4 * MIB

# Error of the estimates of what the engine takes, in starts of servers (docs/benchmarks/memory.md).
ENGINE_ERROR = 0.25

_PART_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "device": "catalog/accelerators.yaml",
        "usable": "utilization, vLLM's gpu_memory_utilization",
        "activations": "estimate: widest part of a layer in the largest step, or the sampler",
        "graphs": "estimate: a pool and 4 MiB a layer",
        "communication": "estimate: buffers observed by aiconfigurator 0.8.0",
        "runtime": "estimate: cuBLAS and kernels, as logs of vLLM print them",
        "kv_cache": "what is left",
    }
)


def memory_sources(architecture: Architecture, weights: str) -> MemorySources:
    counted = f"estimate: counted from the architecture ({architecture.source})"
    stored = "exact in total, read from the checkpoint's files; a device's share is computed"
    return MemorySources(
        parts={**_PART_SOURCES, "weights": stored if is_exact(architecture, weights) else counted},
        engine="slipway.planner.engines.vllm.memory",
        kv_cache="vllm/v1/worker/gpu_worker.py, determine_available_memory",
        sequences="whole blocks, in groups of layers (slipway.planner.engines.vllm.kv_cache)",
    )


def device_memory(
    architecture: Architecture,
    accelerator: Accelerator,
    *,
    layout: Layout,
    precision: Precision,
    max_len: int,
    max_num_seqs: int,
    max_batched_tokens: int | None = None,
    utilization: float = 0.9,
    adapters: LoraAdapters | None = None,
    release: Release = NEWEST,
) -> DeviceMemory:
    """The fullest device of a replica.

    KV cache = utilization · memory - weights - activations - graphs - buffers - runtime - adapters
    (vllm/v1/worker/gpu_worker.py, determine_available_memory). `utilization` is vLLM's
    gpu_memory_utilization; `max_batched_tokens` defaults to what vLLM chooses for the device.
    """
    architecture = padded(architecture, precision.weights)
    scheme = scheme_of(architecture, precision.weights)
    kv_width = KV_BYTES[precision.kv]
    tokens = max_batched_tokens or default_batched_tokens(accelerator)
    device_bytes = accelerator.device_mib * MIB
    usable = math.floor(utilization * device_bytes)
    weights, weights_error = loaded_weights(architecture, precision.weights, layout)
    activations = activation_bytes(
        architecture,
        layout=layout,
        kernel=scheme.expert_kernel,
        tokens=tokens,
        sequences=max_num_seqs,
        release=release,
    )
    graphs = graph_bytes(architecture, layout) if release.counts_graphs else 0
    communication = communication_bytes(layout)
    lora = adapter_bytes(architecture, adapters, layout) if adapters else 0
    cache = usable - weights - activations - graphs - communication - RUNTIME_BYTES - lora
    per_token = kv_bytes_per_token(architecture, bytes_per_value=kv_width, layout=layout)
    sequence_of = partial(sequence_memory, architecture, bytes_per_value=kv_width, layout=layout)
    sequence, prompt = sequence_of(), sequence_of(in_flight=in_flight_tokens(layout, tokens))
    decoding, admitted = sequence.held_bytes(max_len), prompt.held_bytes(max_len)
    held = max(0, cache)
    # Where a token's share depends on its sequence's length, full length is assumed, as vLLM does.
    held_tokens = held * max_len // decoding if is_mixed(architecture) else held // per_token
    return DeviceMemory(
        device_bytes=device_bytes,
        usable_bytes=usable,
        weights_bytes=weights,
        weights_error_bytes=weights_error,
        engine_error_bytes=math.ceil(ENGINE_ERROR * (usable - weights - cache)),
        activations_bytes=activations,
        graphs_bytes=graphs,
        communication_bytes=communication,
        runtime_bytes=RUNTIME_BYTES,
        adapters_bytes=lora,
        kv_cache_bytes=cache,
        kv_bytes_per_token=per_token,
        sequence=sequence,
        longest_sequence_bytes=admitted,
        kv_tokens=layout.data * held_tokens,
        max_sequences_at_full_length=layout.data * _sequences_in(held, decoding, admitted),
    )


# vLLM's max_num_batched_tokens for a server without a large accelerator, and engine_sim's.
SMALL_BATCHED_TOKENS = 2048


def default_batched_tokens(accelerator: Accelerator) -> int:
    """vLLM's max_num_batched_tokens for a server on this device (vllm/engine/arg_utils.py)."""
    gib = accelerator.memory_mib / 1024
    if gib >= 160:
        return 16_384
    is_large = gib >= 70 and accelerator.fp8_tflops  # A100 has no FP8
    return 8_192 if is_large else SMALL_BATCHED_TOKENS


def graph_bytes(architecture: Architecture, layout: Layout) -> int:
    """CUDA graphs of the decode steps."""
    layers = math.ceil(architecture.layers / layout.pipeline)
    return GRAPH_POOL_BYTES + layers * GRAPH_BYTES_PER_LAYER


def communication_bytes(layout: Layout) -> int:
    """Buffers of the collectives between the devices of a replica."""
    if layout.devices == 1:
        return 0
    return PAIR_BUFFER_BYTES if layout.devices == 2 else GROUP_BUFFER_BYTES


def adapter_bytes(
    architecture: Architecture,
    adapters: LoraAdapters,
    layout: Layout,
    *,
    bytes_per_value: int = ACTIVATION_BYTES,
) -> int:
    """Slots for LoRA adapters on every projection of attention and of plain MLPs.

    vLLM (vllm/lora/layers) keeps A whole and divides B where a projection's output is divided
    (query, key, value, gate, up), and the reverse where its input is divided (output, down).
    Latent attention is counted as plain attention with as many heads, which overestimates it.
    """
    hidden, tensor = architecture.hidden, layout.tensor
    queries = architecture.heads * architecture.head_dim / tensor
    keys = kv_heads_per_device(architecture, tensor) * architecture.head_dim
    sides = 4 * hidden + 2 * queries + 2 * keys
    if architecture.experts is None:
        sides += 3 * hidden + 3 * architecture.intermediate / tensor
    layers = math.ceil(architecture.layers / layout.pipeline)
    return math.ceil(adapters.count * adapters.rank * layers * sides * bytes_per_value)


def cpu_replica(
    architecture: Architecture,
    *,
    dtype: str,
    kv_cache_bytes: int,
    max_len: int,
    adapters: LoraAdapters | None = None,
    stages: int = 1,
) -> DeviceMemory:
    """A vLLM replica on a CPU pool, or its largest member where a pipeline has several stages; its
    share of the node stands for the device. Every member has a KV cache of the stated size, for the
    layers of its stage, and an engine of its own."""
    scheme, layout = SCHEMES[DTYPE_SCHEMES[dtype]], Layout(pipeline=stages)
    weights = (
        weight_bytes(architecture, scheme)
        if stages == 1
        else device_weight_bytes(architecture, scheme, layout)
    )
    width = scheme.kept_bytes
    per_token = kv_bytes_per_token(architecture, bytes_per_value=width, layout=layout)
    lora = adapter_bytes(architecture, adapters, layout, bytes_per_value=width) if adapters else 0
    return memory_on_processors(
        weights_bytes=weights,
        kv_bytes_per_token=per_token,
        kv_cache_bytes=kv_cache_bytes,
        runtime_bytes=CPU_ENGINE_OVERHEAD_BYTES,
        adapters_bytes=lora,
        total_bytes=weights + kv_cache_bytes + CPU_ENGINE_OVERHEAD_BYTES + lora,
        max_len=max_len,
    )


def _sequences_in(cache: int, decoding: int, admitted: int) -> int:
    """Sequences that decode together: the last one needs room for its prompt."""
    return 1 + (cache - admitted) // decoding if cache >= admitted else 0
