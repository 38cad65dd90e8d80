"""The simulated engine: no weights, constant step times, processors only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from slipway.config.artifacts import SIMULATOR_PROFILES, Artifacts
from slipway.config.catalog import Accelerator, Architecture
from slipway.config.errors import Problem, suggestion
from slipway.config.model import Model, SimEngine
from slipway.plan.figures import ColdStart, DeviceMemory, Figure, Layout, Precision
from slipway.plan.platform import JsonObject
from slipway.planner.engines.adapter import (
    AcceleratorDemand,
    AcceleratorReplica,
    EngineAdapter,
    EnginePlan,
    HostShare,
    MemorySources,
    ProcessorReplica,
    license_of,
)
from slipway.planner.engines.kv_cache import cache_problems
from slipway.planner.engines.processor_groups import group_problems, member_mhz
from slipway.planner.engines.sim.arguments import argument_problems
from slipway.planner.engines.sim.memory import simulated_replica
from slipway.planner.supply.supply import Supply

CPU_MHZ = 100
ENVIRONMENTS: Mapping[str, str] = {"engine_sim": "aiohttp"}
PROTOCOLS = ("http", "grpc")  # the protocols of the engine that it simulates


class SimAdapter:
    """Simulates an engine: it reports that engine's metrics, and serves as that one does."""

    simulated = True
    environments = ENVIRONMENTS
    drivers: Mapping[str, str] = {}
    bare_vendors: Collection[str] = ()

    def __init__(self, simulates: EngineAdapter) -> None:
        self._simulates = simulates
        self.metrics = simulates.metrics
        self.latency = simulates.latency

    def processor_replica(
        self, model: Model, architecture: Architecture, supply: Supply, artifacts: Artifacts
    ) -> ProcessorReplica | list[Problem]:
        engine, profiles = settings_of(model), artifacts.simulator_profiles
        problems = [*_problems(model), *group_problems(model, architecture, supply)]
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
        memory = simulated_replica(
            kv_bytes_per_token=profiles[engine.profile].kv_bytes_per_token,
            kv_cache_bytes=engine.kv_cache,
            max_len=engine.max_model_len,
        )
        problems += cache_problems(model, memory, engine.max_model_len, engine.max_model_len)
        return problems or ProcessorReplica(
            memory=memory, cpu_mhz=member_mhz(model, supply, CPU_MHZ)
        )

    def on_processors(
        self, model: Model, architecture: Architecture, _supply: Supply, replica: ProcessorReplica
    ) -> EnginePlan:
        engine = settings_of(model)
        return EnginePlan(
            service="engine_sim",
            python="engine_sim",
            environments={name: name for name in ENVIRONMENTS},
            document={
                "kind": engine.kind,
                "architecture": engine.architecture,
                "profile": engine.profile,
                "max_model_len": engine.max_model_len,
                "max_num_seqs": engine.max_num_seqs,
                "kv_cache_bytes": engine.kv_cache,
                "startup_s": engine.startup_s,
                "engine_args": dict(engine.engine_args),
                **_members(model),
            },
            weights=None,
            host_memory_bytes=replica.host_memory_bytes,
            cpu_mhz=replica.cpu_mhz,
            license=license_of(model.settings, architecture),
            protocols=PROTOCOLS,
        )

    def on_accelerators(
        self, model: Model, architecture: Architecture, supply: Supply, layout: Layout
    ) -> EnginePlan:
        raise NotImplementedError("accelerator_demand refuses it")

    def accelerator_demand(
        self, model: Model, _architecture: Architecture
    ) -> AcceleratorDemand | list[Problem]:
        problem = model.origin.problem(
            ("engine", "kind"),
            "runs on pools without accelerators only",
            value=model.settings.engine.kind,
            fix="use a pool of processors, or engine kind vllm",
        )
        return [problem]

    def host_share(self, devices: int) -> HostShare:
        raise NotImplementedError("accelerator_demand refuses it")

    def accelerator_problems(self, name: str, accelerator: Accelerator) -> tuple[str, ...]:
        raise NotImplementedError("accelerator_demand refuses it")

    def weights_problems(self, architecture: Architecture, weights: str) -> tuple[str, ...]:
        raise NotImplementedError("accelerator_demand refuses it")

    def replica_problems(self, replica: AcceleratorReplica) -> tuple[str, ...]:
        raise NotImplementedError("accelerator_demand refuses it")

    def device_memory(self, replica: AcceleratorReplica) -> DeviceMemory:
        raise NotImplementedError("accelerator_demand refuses it")

    def longest_sequence(self, replica: AcceleratorReplica, cache_bytes: int) -> int:
        raise NotImplementedError("accelerator_demand refuses it")

    def memory_sources(self, architecture: Architecture, weights: str) -> MemorySources:
        return self._simulates.memory_sources(architecture, weights)

    def batched_tokens(self, model: Model, accelerator: Accelerator | None, sequences: int) -> int:
        return self._simulates.batched_tokens(model, accelerator, sequences)

    def longest_step_s(
        self,
        model: Model,
        _architecture: Architecture,
        _supply: Supply,
        *,
        layout: Layout,  # noqa: ARG002  (the interface's)
        memory: DeviceMemory,
        artifacts: Artifacts,
    ) -> float:
        """The profile's constants, with a whole batch of prompt tokens and the whole KV cache."""
        engine = settings_of(model)
        times = artifacts.simulator_profiles[engine.profile].step_times
        prompts_ms = times.prefill_token_ms * self.batched_tokens(model, None, engine.max_num_seqs)
        decode_ms = (
            times.sequence_ms * engine.max_num_seqs + times.context_token_ms * memory.kv_tokens
        )
        scale = engine.engine_args.get("time_scale", 1)
        return float((max(times.base_ms, prompts_ms) + decode_ms) / 1000 * scale)

    def processor_precision(self, _model: Model) -> Precision:
        return Precision(weights="fp32", kv="fp32")

    def processor_start(self, model: Model) -> ColdStart:
        start = Figure(
            value=settings_of(model).startup_s,
            unit="s",
            basis="declared",
            source="engine.startup_s",
        )
        return ColdStart(parts={"load": start}, total_s=start, cliff_s=None)

    def step_profile(self, model: Model) -> str | None:
        return settings_of(model).profile


def settings_of(model: Model) -> SimEngine:
    engine = model.settings.engine
    assert isinstance(engine, SimEngine)  # noqa: S101  (the registry's key)
    return engine


def _problems(model: Model) -> Iterator[Problem]:
    if model.settings.source is not None:
        yield model.origin.problem(
            ("source",),
            "has no meaning for engine kind sim, which loads no weights",
            fix="remove `source:`, or use engine kind vllm",
        )
    yield from argument_problems(settings_of(model).engine_args, model.origin)


def _members(model: Model) -> JsonObject:
    """Nothing for a replica of one: its document stays what it was."""
    pipeline = model.settings.parallel.pipeline
    return {"pipeline_parallel_size": pipeline} if pipeline > 1 else {}
