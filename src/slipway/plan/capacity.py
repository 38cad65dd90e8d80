"""CapacityPlan and its parts: what an environment's models need, cost and promise.

Nothing here computes. Every number that is not a plain fact is a `Figure`, which says where it
comes from; sizes are bytes, times milliseconds, prices US dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# exact: follows from the facts by arithmetic; declared: the user or a price list says so;
# measured: a calibration row of a real run; estimate: a model of the hardware, with an error.
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
    """How one replica is spread over devices: tensor x pipeline x data of them.

    `expert`: over how many of those devices the experts of a mixture are divided (1: every
    tensor-parallel group holds a slice of each expert).
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1

    @property
    def devices(self) -> int:
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Names of planner.quantization: weights "bf16" | "fp16" | "fp32" | "fp8" | "int8" | "awq" |
    "gptq" | "nvfp4"..., kv "bf16" | "fp8" | "fp32"."""

    weights: str = "bf16"
    kv: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Memory of one device of a replica. `kv_cache_bytes` is what is left for the KV cache;
    negative when the rest alone does not fit."""

    device_bytes: int
    usable_bytes: int  # device_bytes x the engine's utilization
    weights_bytes: int
    activations_bytes: int  # at the largest step the engine runs
    graphs_bytes: int  # CUDA graphs
    communication_bytes: int  # NCCL and custom all-reduce buffers
    runtime_bytes: int  # context, allocator, kernels
    adapters_bytes: int  # LoRA
    kv_cache_bytes: int
    kv_bytes_per_token: int  # on this device
    kv_tokens: int  # tokens the KV cache of the whole replica holds
    max_sequences_at_full_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEstimate:
    """One replica under a given load. Times are for the mean request of that load."""

    concurrency: int  # sequences decoded together
    ttft_ms: Figure
    tpot_ms: Figure
    prefill_tokens_per_s: Figure  # one replica doing nothing else
    decode_tokens_per_s: Figure  # one replica at `concurrency`
    requests_per_s: Figure  # what one replica sustains within the goal


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart:
    """From the decision to scale out to the first token, by parts in order."""

    parts: Mapping[str, Figure]  # "node", "image", "weights", "load", "compile", ...
    total_s: Figure
    # The longest startup with which the declared ramp stays within the goal; None without a ramp.
    cliff_s: Figure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    usd_per_hour: Figure
    usd_per_month: Figure  # 730 hours
    usd_per_million_output_tokens: Figure | None  # None without a declared load
    price_date: str  # ISO date of the oldest price used; "" when nothing is priced


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A pool that was not chosen, and why."""

    pool: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapacity:
    model: str
    architecture: str  # catalog key
    pool: str
    accelerator: str  # catalog key; "" on a CPU pool
    instance: str  # catalog key; "" on owned machines
    layout: Layout
    precision: Precision
    memory: DeviceMemory
    parameters: int
    active_parameters: int
    sequences_at_mean_length: int  # concurrent requests of the declared load that the KV holds
    replicas_needed: Figure  # for the declared load and goal
    min_replicas: int
    max_replicas: int
    utilization: float  # of min_replicas under the declared load, 1.0 = saturated
    serving: ServingEstimate | None  # None without a declared load
    meets_goal: bool | None  # None without a goal or without a load
    cold_start: ColdStart
    cost: Cost
    refused: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCapacity:
    pool: str
    kind: str
    instance: str
    accelerator: str
    nodes_min: int
    nodes_max: int
    accelerators_per_node: int
    accelerators_used: int  # at every model's minimum
    accelerators_used_at_most: int  # at every model's maximum
    market: str  # "on_demand" | "spot" | "reserved" | "owned"
    usd_per_hour: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    environment: str
    pools: tuple[PoolCapacity, ...]
    models: tuple[ModelCapacity, ...]
    cost: Cost
    warnings: tuple[str, ...] = ()  # e.g. a price older than 90 days
    schema_version: int = 1
