"""The KV cache of one device: what vLLM allocates for tokens and for sequences.

The kinds of layers are those of vllm/v1/kv_cache_interface.py: full attention, sliding window,
latent attention and states of linear attention (MambaSpec there).
"""

from __future__ import annotations

import math
from bisect import bisect_right

from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import Architecture, LinearAttention
from slipway.plan.figures import Layout, SequenceMemory

BLOCK_TOKENS = 16  # vLLM's block size: a sequence's last block is allocated whole
ONE_DEVICE = Layout()

# States of one sequence in a layer with linear attention: the running one and that of the last
# block, for prefix caching, which is on by default (mamba_cache_mode "align" in
# vllm/model_executor/models/config.py).
STATES = 2
CONVOLUTION_BYTES = 2  # a value of the convolution's state, in the model's dtype


def kv_bytes_per_token(
    architecture: Architecture, *, bytes_per_value: int, layout: Layout = ONE_DEVICE
) -> int:
    """KV cache of one token on one device, every layer with attention counted.

    Grouped-query attention: 2 (K and V) · layers · kv_heads · head_dim · bytes. Under tensor
    parallelism heads are divided, and replicated once there are more devices than heads.
    Latent attention (DeepSeek-V2, arXiv 2405.04434 §2.1): layers · (kv_lora_rank + rope) ·
    bytes, replicated on every device.
    """
    full, windowed, _ = _stage_layers(architecture, layout)
    return (full + windowed) * _layer_kv_bytes(architecture, bytes_per_value, layout)


def kv_bytes(
    architecture: Architecture,
    *,
    tokens: int,
    bytes_per_value: int,
    layout: Layout = ONE_DEVICE,
) -> int:
    """KV values of one sequence on one device. Sliding-window layers stop growing at the window."""
    full, windowed, _ = _stage_layers(architecture, layout)
    window = architecture.sliding_window
    layer_tokens = full * tokens + windowed * min(tokens, window.tokens if window else 0)
    return layer_tokens * _layer_kv_bytes(architecture, bytes_per_value, layout)


def sequence_memory(
    architecture: Architecture,
    *,
    bytes_per_value: int,
    layout: Layout = ONE_DEVICE,
    in_flight: int = 1,
) -> SequenceMemory:
    """What vLLM allocates for one sequence on one device: whole blocks, in groups of layers.

    A windowed layer holds the window before the `in_flight` tokens of the running steps, and both
    start anywhere in a block (SlidingWindowSpec in vllm/v1/kv_cache_interface.py). `in_flight` is
    one token while decoding and `in_flight_tokens` while the prompt is computed.
    """
    full, windowed, linear = _grouped(_stage_layers(architecture, layout))
    window = architecture.sliding_window
    reach = window.tokens - 1 + in_flight if window else 0
    block_tokens = _block_tokens(architecture, bytes_per_value, layout)
    block_bytes = block_tokens * _layer_kv_bytes(architecture, bytes_per_value, layout)
    return SequenceMemory(
        block_tokens=block_tokens,
        full_block_bytes=full * block_bytes,
        windowed_block_bytes=windowed * block_bytes,
        window_blocks=math.ceil(reach / block_tokens) + 1 if window else 0,
        state_bytes=linear * STATES * block_bytes,
    )


def longest_sequence(
    architecture: Architecture,
    cache: int,
    *,
    bytes_per_value: int,
    layout: Layout,
    in_flight: int,
) -> int:
    """The longest sequence in tokens, up to the context, that fits in `cache` bytes of a device."""
    sequence = sequence_memory(
        architecture, bytes_per_value=bytes_per_value, layout=layout, in_flight=in_flight
    )
    lengths = range(1, architecture.context + 1)
    return bisect_right(lengths, cache, key=sequence.held_bytes)


def in_flight_tokens(layout: Layout, batched_tokens: int) -> int:
    """Tokens of all steps that vLLM has in flight: one step per pipeline stage, and one in
    preparation (max_concurrent_batches in vllm/config/vllm.py, with asynchronous scheduling)."""
    return (layout.pipeline + 1) * batched_tokens


def is_mixed(architecture: Architecture) -> bool:
    """Whether layers differ in what they hold of a sequence."""
    return architecture.sliding_window is not None or architecture.linear_attention is not None


def _stage_layers(architecture: Architecture, layout: Layout) -> tuple[int, int, int]:
    """Layers with full attention, a sliding window and linear attention, of the largest pipeline
    stage."""
    window, linear = architecture.sliding_window, architecture.linear_attention
    stage = math.ceil(architecture.layers / layout.pipeline)
    others = (window.layers if window else 0) + (linear.layers if linear else 0)
    full = math.ceil((architecture.layers - others) / layout.pipeline)
    windowed = stage - full if window else 0
    return full, windowed, stage - full - windowed


def _grouped(layers: tuple[int, int, int]) -> tuple[int, int, int]:
    """Each kind rounded up to vLLM's groups of equal size (vllm/v1/core/kv_cache_utils.py): the
    count of the rarest kind, or of the commonest where the counts are close."""
    counts = [count for count in layers if count]
    fewest, most = min(counts), max(counts)
    group = most if most < 1.5 * fewest else fewest
    full, windowed, linear = (math.ceil(count / group) * group for count in layers)
    return full, windowed, linear


def _block_tokens(architecture: Architecture, bytes_per_value: int, layout: Layout) -> int:
    """Blocks of attention are made as large as a state of linear attention, so that both come from
    one pool (_align_hybrid_block_size in vllm/platforms/interface.py)."""
    linear = architecture.linear_attention
    if linear is None:
        return BLOCK_TOKENS
    smallest = BLOCK_TOKENS * _layer_kv_bytes(architecture, bytes_per_value, layout)
    return BLOCK_TOKENS * math.ceil(_state_bytes(linear, layout) / smallest)


def _state_bytes(linear: LinearAttention, layout: Layout) -> int:
    """One layer's state of one sequence on one device (gated_delta_net_state_shape in
    vllm/model_executor/layers/mamba/mamba_utils.py)."""
    keys, values = linear.key_dimensions, linear.value_dimensions
    channels = 2 * linear.key_heads * keys + linear.value_heads * values
    convolution = channels * (linear.convolution - 1) * CONVOLUTION_BYTES
    matrices = linear.value_heads * keys * values * linear.state_bytes
    return math.ceil((convolution + matrices) / layout.tensor)


def _layer_kv_bytes(architecture: Architecture, bytes_per_value: int, layout: Layout) -> int:
    latent = architecture.latent
    if latent is not None:
        return (latent.kv_lora_rank + latent.rope_dimensions) * bytes_per_value
    kv_heads = kv_heads_per_device(architecture, layout.tensor)
    return 2 * kv_heads * architecture.head_dim * bytes_per_value
