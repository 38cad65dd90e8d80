"""The figures of a plan: what models need, cost and promise.

Nothing here computes. Every number that is not a plain fact is a `Figure`, which says where it
comes from; sizes are bytes, times milliseconds, prices US dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# exact: computed from facts; declared: stated by the user or a price list;
# measured: a calibration row of a real run; estimate: from a model of the hardware, with an error.
Basis = Literal["exact", "declared", "measured", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number, its unit, and where it comes from. `low` and `high` bound an estimate."""

    value: float
    unit: str  # "ms", "tokens/s", "USD/h"
    basis: Basis
    source: str  # the formula and its origin, or the measured row
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How one replica is spread over tensor x pipeline x data devices. `expert` is the number of
    those devices that the experts of a mixture are divided over (1: every tensor-parallel group
    holds a slice of each expert).
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1

    @property
    def devices(self) -> int:
        return self.tensor * self.pipeline * self.data

    def nodes(self, devices_per_node: int) -> int:
        """The fewest nodes that hold a replica."""
        return -(-self.devices // devices_per_node)

    def devices_on_each_node(self, devices_per_node: int) -> int:
        """The same number on every node: other layouts are refused."""
        return self.devices // self.nodes(devices_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Names of slipway.planner.quantization: weights "bf16" | "fp16" | "fp32" | "fp8" |
    "int8" | "awq" | "gptq" | "nvfp4"..., kv "bf16" | "fp8" | "fp32"."""

    weights: str = "bf16"
    kv: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMemory:
    """What one sequence holds of a device's KV cache, in whole blocks of `block_tokens`.

    Layers with full attention keep a block for all its tokens, layers with a sliding window at most
    `window_blocks`, and layers with linear attention a state of one size.
    """

    block_tokens: int
    full_block_bytes: int  # one block in every layer that keeps all tokens
    windowed_block_bytes: int = 0  # one block in every windowed layer
    window_blocks: int = 0
    state_bytes: int = 0

    def held_bytes(self, tokens: int) -> int:
        """By a sequence of so many tokens."""
        blocks = -(-tokens // self.block_tokens)
        windowed = min(blocks, self.window_blocks) * self.windowed_block_bytes
        return blocks * self.full_block_bytes + windowed + self.state_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Memory of one device of a replica. `kv_cache_bytes` is what is left for the KV cache; it is
    negative when everything else already exceeds the device, or what an engine reported. The errors
    are those of the estimates, in both directions: of the weights, and of all that the engine takes
    besides."""

    device_bytes: int
    usable_bytes: int  # device_bytes x the engine's utilization
    weights_bytes: int
    weights_error_bytes: int
    engine_error_bytes: int
    activations_bytes: int  # at the largest step the engine runs
    graphs_bytes: int  # CUDA graphs
    communication_bytes: int  # NCCL and custom all-reduce buffers
    runtime_bytes: int  # context, allocator, kernels
    adapters_bytes: int  # LoRA
    kv_cache_bytes: int
    kv_bytes_per_token: int  # on this device, in the layers with attention
    sequence: SequenceMemory  # while it decodes
    longest_sequence_bytes: int  # of full length, while its prompt is computed
    kv_tokens: int  # tokens the KV cache of the whole replica holds, in sequences of full length
    max_sequences_at_full_length: int
    kv_source: str = ""  # the measured row that the KV cache is from; "" where it is what is left

    @property
    def started_cache_bytes(self) -> int:
        """The KV cache of a replica that starts: one that may fit has room for one sequence."""
        return max(self.kv_cache_bytes, self.longest_sequence_bytes)

    @property
    def error_bytes(self) -> int:
        """By how much the KV cache may be smaller or larger; nothing where it was measured."""
        if self.kv_source:
            return 0
        return self.weights_error_bytes + self.engine_error_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEstimate:
    """One replica under a given load. Times are those of the mean request."""

    concurrency: int  # sequences decoded together
    ttft_ms: Figure
    tpot_ms: Figure
    prefill_tokens_per_s: Figure  # on an otherwise idle replica
    decode_tokens_per_s: Figure  # one replica at `concurrency`
    requests_per_s: Figure  # what one replica sustains within the goal


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """The time from the decision to scale out to the first token; its parts are in order."""

    parts: Mapping[str, Figure]  # "node", "image", "weights", "load", "compile", ...
    total_s: Figure
    # The longest startup that keeps the declared ramp within the goal; None without a ramp.
    cliff_s: Figure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    usd_per_hour: Figure
    usd_per_month: Figure  # 730 hours
    usd_per_million_output_tokens: Figure | None  # None without a declared load
    price_date: str  # ISO date of the oldest price used; "" when nothing is priced
    price_age_days: int | None = None  # on the day of planning; None without a price or a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pool that was not chosen, and why."""

    pool: str
    reasons: tuple[str, ...]
