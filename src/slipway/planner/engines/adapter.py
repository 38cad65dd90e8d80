"""The interface between the planner and an engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slipway.config.artifacts import Artifacts
from slipway.config.calibration import StepTimes
from slipway.config.catalog import Accelerator, Architecture
from slipway.config.errors import Problem
from slipway.config.model import Model, ModelSettings
from slipway.plan.figures import ColdStart, DeviceMemory, Layout, Precision, ServingEstimate
from slipway.plan.platform import JsonObject, LatencyGoal, WeightsSpec
from slipway.planner.calibration import Calibration
from slipway.planner.hardware import Hardware
from slipway.planner.supply.supply import Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What one replica runs where it is placed. `host_memory_bytes` and `cpu_mhz` are per node."""

    service: str  # folder of services/
    python: str  # environment whose interpreter runs the replica
    environments: Mapping[str, str]  # name in the replica -> key of Artifacts.environments
    document: JsonObject  # the `engine` part of replica.json
    weights: WeightsSpec | None
    host_memory_bytes: int
    cpu_mhz: int
    license: str  # of the weights, "" where neither the model file nor the catalog states it
    protocols: tuple[str, ...]  # a subset of slipway.plan.platform.PROTOCOLS
    # The packages that an image must have in this version: "vllm" -> "0.32.0".
    image_has: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """What a replica on accelerators takes of a node besides its devices."""

    host_memory_bytes: int
    cpu_mhz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorReplica:
    """What one replica on processors takes of a node. All its memory is host memory."""

    memory: DeviceMemory
    cpu_mhz: int

    @property
    def host_memory_bytes(self) -> int:
        return self.memory.usable_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraAdapters:
    """The adapters that an engine reserves memory for at start."""

    count: int  # in one step
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """What a model file says about the memory of its engine's devices."""

    utilization: float = 1.0  # share of a device's memory
    max_batched_tokens: int | None = None  # in one step; None where the engine chooses
    adapters: LoraAdapters | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorDemand:
    """What a model asks of its engine on accelerators, before a pool and a layout are chosen."""

    precision: Precision
    memory: MemorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorReplica:
    """One replica on devices of one kind: everything its memory depends on."""

    architecture: Architecture
    accelerator_name: str  # catalog key
    accelerator: Accelerator
    devices_per_node: int
    layout: Layout
    precision: Precision
    max_model_len: int
    max_num_seqs: int
    memory: MemorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoLabel:
    """A whole number that an engine reports as a label of a metric, whose value is always 1."""

    metric: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """Names of the metrics that an engine reports to Prometheus; histograms are in seconds."""

    requests: str  # counter of answered requests
    input_tokens: str  # counter
    output_tokens: str  # counter
    running: str  # gauge: sequences in the batch
    kv_cache_usage: str  # gauge, 0 to 1
    # Tokens of one data-parallel engine's KV cache; each engine of a replica has a label `engine`.
    kv_tokens: InfoLabel
    ttft: str  # histogram
    tpot: str  # histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """The load of one replica. Lengths are those of the mean request."""

    requests_per_s: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A replica and the requests it answers. Without `hardware` it runs on processors."""

    architecture: Architecture
    hardware: Hardware | None
    layout: Layout
    precision: Precision
    load: LoadShape
    goal: LatencyGoal
    memory: DeviceMemory
    max_num_seqs: int
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The operating point at which the constants are taken."""

    prompt_tokens: float  # computed in one step
    sequences: float  # sequences decoding together
    context: float  # tokens of each of them


class Latency(Protocol):
    """An engine's times: measured where the calibration has a matching row, else estimated."""

    def serving_estimate(self, served: Served) -> ServingEstimate:
        """One replica under its load, or under what it sustains where the load is higher.

        TTFT and TPOT are means; `requests_per_s` meets the goal at the 95th percentile, and is 0
        when a single request misses it. Raises ValueError for processors without a measurement.
        """
        ...

    def with_sustained_error(self, estimate: ServingEstimate, served: Served) -> ServingEstimate:
        """The estimate with the error of `requests_per_s`."""
        ...

    def step_times(
        self,
        architecture: Architecture,
        hardware: Hardware | None,
        *,
        layout: Layout,
        precision: Precision,
        around: Operation,
        calibration: Calibration,
    ) -> tuple[StepTimes, str] | None:
        """The times of a step as the simulator has them, and their source; None on processors
        without a measurement."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySources:
    """The sources of DeviceMemory's figures, in words."""

    parts: Mapping[str, str]  # by the name of the part
    engine: str  # what the engine itself takes
    kv_cache: str
    sequences: str  # what one of them holds of the cache


class EngineAdapter(Protocol):
    """One engine. Methods that can refuse return problems, each with a key and a fix."""

    simulated: bool  # its times are constants, so nothing it does is a measurement
    metrics: EngineMetrics
    latency: Latency
    # Python environments of its replicas, and the package that gives each its version
    environments: Mapping[str, str]
    drivers: Mapping[str, str]  # vendor of accelerators -> the oldest driver that works, if known
    bare_vendors: Collection[str]  # on whose accelerators a host can run it without containers

    def processor_replica(
        self, model: Model, architecture: Architecture, supply: Supply, artifacts: Artifacts
    ) -> ProcessorReplica | list[Problem]:
        """Before placement. As for devices (`accelerator_demand`, `device_memory`), it refuses."""
        ...

    def on_processors(
        self, model: Model, architecture: Architecture, supply: Supply, replica: ProcessorReplica
    ) -> EnginePlan: ...

    def on_accelerators(
        self, model: Model, architecture: Architecture, supply: Supply, layout: Layout
    ) -> EnginePlan: ...

    def accelerator_demand(
        self, model: Model, architecture: Architecture
    ) -> AcceleratorDemand | list[Problem]: ...

    def host_share(self, devices: int) -> HostShare:
        """Of a node on which a replica has so many devices."""
        ...

    def accelerator_problems(self, name: str, accelerator: Accelerator) -> tuple[str, ...]:
        """Why the engine serves no model on this accelerator, whose catalog key is `name`."""
        ...

    def weights_problems(self, architecture: Architecture, weights: str) -> tuple[str, ...]:
        """Why the model's weights cannot be in this scheme, or gain nothing from it."""
        ...

    def replica_problems(self, replica: AcceleratorReplica) -> tuple[str, ...]:
        """Every reason why the engine cannot run this replica, whatever its memory."""
        ...

    def device_memory(self, replica: AcceleratorReplica) -> DeviceMemory:
        """The memory of the fullest device."""
        ...

    def longest_sequence(self, replica: AcceleratorReplica, cache_bytes: int) -> int:
        """Tokens of the longest sequence, up to the context, that fits in so much of a device's KV
        cache."""
        ...

    def memory_sources(self, architecture: Architecture, weights: str) -> MemorySources: ...

    def batched_tokens(self, model: Model, accelerator: Accelerator | None, sequences: int) -> int:
        """The most tokens of one step of a replica that decodes so many sequences together."""
        ...

    def longest_step_s(
        self,
        model: Model,
        architecture: Architecture,
        supply: Supply,
        *,
        layout: Layout,
        memory: DeviceMemory,
        artifacts: Artifacts,
    ) -> float:
        """What a step of a replica in this place takes at most, whatever it is asked."""
        ...

    def processor_precision(self, model: Model) -> Precision: ...

    def processor_start(self, model: Model) -> ColdStart: ...

    def step_profile(self, model: Model) -> str | None:
        """The profile that holds its step times; None where they are estimated or measured."""
        ...


def license_of(settings: ModelSettings, architecture: Architecture) -> str:
    """The license in the model file, else the published one of the architecture; "" if unknown."""
    return settings.license or architecture.license or ""
