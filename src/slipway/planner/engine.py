"""One model's engine: memory, weights and the document its replicas read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipway.config.artifacts import SIMULATOR_PROFILES
from slipway.config.catalog import HOW_TO_ADD_A_MODEL, Architecture, Catalog
from slipway.config.errors import Problem, suggestion
from slipway.config.model import (
    Model,
    ModelSettings,
    PackageSource,
    PathSource,
    SimEngine,
    VllmEngine,
)
from slipway.plan.capacity import Layout, Precision
from slipway.plan.digest import digest
from slipway.plan.platform import JsonObject, MemoryEstimate, Pool, WeightsSpec
from slipway.planner.memory.device import MIB, cpu_replica, simulated_replica
from slipway.planner.memory.parallelism import DEVICES_PER_NODE, layout_problems

from .pools import MHZ_PER_CORE

DOCUMENT_VERSION = 1  # of replica.json and weights.json
WEIGHTS_DIGEST_LENGTH = 12

CPU_DTYPE = "float32"  # vLLM 0.32 answers wrongly in bfloat16 on CPUs with AMX (measured)
MAX_DEFAULT_THREADS = 4
KV_BLOCK_TOKENS = 128  # of vLLM 0.32 on CPUs (its metric vllm:cache_config_info)

# Local tasks take turns on the cores, so only a share of what an engine can use is reserved:
# a replica and its successor fit on one node.
RESERVED_CPU_SHARE = 4
SIM_CPU_MHZ = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    service: str  # folder of services/
    python: str  # environment whose interpreter runs the replica
    environments: tuple[str, ...]
    document: JsonObject  # the `engine` part of replica.json
    weights: WeightsSpec | None
    memory: MemoryEstimate
    cpu_mhz: int
    license: str  # of the weights, "" where neither the model's file nor the catalog knows it


def plan_engine(
    model: Model, pool: Pool, catalog: Catalog, simulator_kv_bytes: Mapping[str, int]
) -> EnginePlan | list[Problem]:
    """What one replica of the model runs on this pool, or why it cannot."""
    architecture = find_architecture(model, catalog.models)
    if isinstance(architecture, Problem):
        return [architecture]
    engine = model.settings.engine
    problems = [*context_problems(model, architecture), *_parallel_problems(model, architecture)]
    if isinstance(engine, SimEngine):
        problems += _sim_problems(model, engine, simulator_kv_bytes)
        if engine.profile not in simulator_kv_bytes:
            return problems
        plan = _simulated(engine, architecture, simulator_kv_bytes[engine.profile])
    else:
        problems += _local_problems(model, pool)
        plan = _vllm(model.settings, engine, architecture, pool)
    problems += _cache_problems(model, plan)
    return problems or plan


def find_architecture(model: Model, known: Mapping[str, Architecture]) -> Architecture | Problem:
    """The catalog entry the engine names, else the one its source is published under."""
    settings = model.settings
    named = settings.engine.architecture
    if named is not None:
        if named in known:
            return known[named]
        return model.origin.problem(
            ("engine", "architecture"),
            "is not in catalog/models.yaml",
            value=named,
            fix=f"{suggestion(named, known)}; or {HOW_TO_ADD_A_MODEL}",
        )
    published = _published_name(settings)
    for architecture in known.values():
        if published and published in (*architecture.packages, *architecture.hub):
            return architecture
    return model.origin.problem(
        ("engine", "architecture"),
        "is required: catalog/models.yaml does not know this source",
        fix=f"name the architecture; or {HOW_TO_ADD_A_MODEL}",
        value=published,
    )


def _published_name(settings: ModelSettings) -> str | None:
    source = settings.source
    if isinstance(source, PackageSource):
        return source.package.partition("==")[0]
    return getattr(source, "hf", None)


def context_problems(model: Model, architecture: Architecture) -> list[Problem]:
    """Sequences longer than what the model was trained for."""
    length = model.settings.engine.max_model_len
    if length is None or length <= architecture.context:
        return []
    return [
        model.origin.problem(
            ("engine", "max_model_len"),
            f"is more than the {architecture.context} tokens the model was trained for",
            value=length,
            fix=f"use {architecture.context} or less",
        )
    ]


def _parallel_problems(model: Model, architecture: Architecture) -> list[Problem]:
    parallel = model.settings.parallel
    reasons = _refusals(architecture, parallel.tensor, parallel.pipeline)
    if not reasons:
        return []
    if parallel.pipeline > architecture.layers:
        return [
            model.origin.problem(
                ("parallel", "pipeline"),
                "; ".join(reasons),
                value=parallel.pipeline,
                fix=f"use {architecture.layers} or less",
            )
        ]
    allowed = [n for n in (1, 2, 4, 8) if not _refusals(architecture, n, parallel.pipeline)]
    return [
        model.origin.problem(
            ("parallel", "tensor"),
            "; ".join(reasons),
            value=parallel.tensor,
            fix=f"use one of: {', '.join(map(str, allowed))}",
        )
    ]


def _refusals(architecture: Architecture, tensor: int, pipeline: int) -> tuple[str, ...]:
    layout = Layout(tensor=tensor, pipeline=pipeline)
    precision = Precision(weights=architecture.published_weights)
    return layout_problems(architecture, layout, precision, devices_per_node=DEVICES_PER_NODE)


def _cache_problems(model: Model, plan: EnginePlan) -> list[Problem]:
    """An engine does not start when one sequence of full length exceeds its KV cache."""
    length, memory = plan.document["max_model_len"], plan.memory
    tokens = length if plan.document["kind"] == "sim" else _in_blocks(length)
    if memory.kv_tokens >= tokens:
        return []
    needed = -(-tokens * memory.kv_bytes_per_token // MIB)
    return [
        model.origin.problem(
            ("engine", "kv_cache"),
            f"holds {memory.kv_tokens} tokens, and one sequence of {length} takes {tokens}",
            value=f"{memory.kv_cache_bytes // MIB}MiB",
            fix=f"raise kv_cache to {needed}MiB, or lower max_model_len",
        )
    ]


def _in_blocks(tokens: int) -> int:
    """vLLM's cache consists of whole blocks, of which it keeps one to itself (get_kv_cache_configs
    in vllm/v1/core/kv_cache_utils.py)."""
    return (-(-tokens // KV_BLOCK_TOKENS) + 1) * KV_BLOCK_TOKENS


def _sim_problems(model: Model, engine: SimEngine, profiles: Mapping[str, int]) -> list[Problem]:
    problems = []
    if model.settings.source is not None:
        problems.append(
            model.origin.problem(
                ("source",),
                "has no meaning for engine kind sim, which loads no weights",
                fix="remove `source:`, or use engine kind vllm",
            )
        )
    if engine.profile not in profiles:
        problems.append(
            model.origin.problem(
                ("engine", "profile"),
                f"is not in {SIMULATOR_PROFILES}",
                value=engine.profile,
                fix=suggestion(engine.profile, profiles),
            )
        )
    return problems


def _local_problems(model: Model, pool: Pool) -> list[Problem]:
    """What a vLLM replica needs that a pool of local CPU nodes does not have."""
    settings, origin = model.settings, model.origin
    problems = []
    if settings.source is None:
        problems.append(
            origin.problem(("source",), "is required for engine kind vllm", fix="add `source:`")
        )
    elif not isinstance(settings.source, PackageSource | PathSource):
        problems.append(
            origin.problem(
                ("source",),
                f'pool "{pool.name}" ({pool.kind}) prepares weights from packages and folders only',
                value=settings.source.TAG,
                fix="use a `package:` source, or download it and use a `path:` source",
            )
        )
    dtype = getattr(settings.engine, "dtype", None)
    if dtype not in {None, CPU_DTYPE}:
        problems.append(
            origin.problem(
                ("engine", "dtype"),
                "gives wrong answers on CPU nodes",
                value=dtype,
                fix=f"use {CPU_DTYPE}, or leave the key out",
            )
        )
    parallel = settings.parallel
    if parallel.tensor * parallel.pipeline > 1:
        problems.append(
            origin.problem(
                ("parallel",),
                f'pool "{pool.name}" has no accelerators to split the model over',
                value={"tensor": parallel.tensor, "pipeline": parallel.pipeline},
                fix="leave `parallel` out",
            )
        )
    return problems


def _vllm(
    settings: ModelSettings, engine: VllmEngine, architecture: Architecture, pool: Pool
) -> EnginePlan:
    dtype = engine.dtype or CPU_DTYPE
    threads = engine.threads or min(MAX_DEFAULT_THREADS, pool.cpu_mhz // MHZ_PER_CORE)
    return EnginePlan(
        service="triton_vllm",
        python="triton",  # light: the launcher and the stub; vLLM has an interpreter of its own
        environments=("triton", "vllm"),
        document={
            "kind": "vllm",
            "dtype": dtype,
            "max_model_len": engine.max_model_len or architecture.context,
            "max_num_seqs": engine.max_num_seqs,
            "kv_cache_bytes": engine.kv_cache,
            "tensor_parallel_size": settings.parallel.tensor,
            "pipeline_parallel_size": settings.parallel.pipeline,
            "threads": threads,
            "engine_args": dict(engine.engine_args),
        },
        weights=_weights(settings),
        memory=cpu_replica(architecture, dtype=dtype, kv_cache_bytes=engine.kv_cache),
        cpu_mhz=threads * MHZ_PER_CORE // RESERVED_CPU_SHARE,
        license=license_of(settings, architecture),
    )


def _simulated(
    engine: SimEngine, architecture: Architecture, kv_bytes_per_token: int
) -> EnginePlan:
    return EnginePlan(
        service="engine_sim",
        python="engine_sim",
        environments=("engine_sim",),
        document={
            "kind": "sim",
            "architecture": engine.architecture,
            "profile": engine.profile,
            "max_model_len": engine.max_model_len,
            "max_num_seqs": engine.max_num_seqs,
            "kv_cache_bytes": engine.kv_cache,
            "startup_s": engine.startup_s,
            "engine_args": dict(engine.engine_args),
        },
        weights=None,
        memory=simulated_replica(
            architecture, kv_bytes_per_token=kv_bytes_per_token, kv_cache_bytes=engine.kv_cache
        ),
        cpu_mhz=SIM_CPU_MHZ,
        license=architecture.license or "",
    )


def license_of(settings: ModelSettings, architecture: Architecture) -> str:
    """As the model's file says it, else as the architecture was published; "" if unknown."""
    return settings.license or architecture.license or ""


def _weights(settings: ModelSettings) -> WeightsSpec | None:
    if settings.source is None:
        return None
    source = settings.source.model_dump()
    directory = f"weights/{settings.name}-{digest(source, length=WEIGHTS_DIGEST_LENGTH)}"
    return WeightsSpec(
        directory=directory,
        document={"schema_version": DOCUMENT_VERSION, "source": source, "directory": directory},
    )
