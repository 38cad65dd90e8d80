"""The arithmetic behind one model's capacity, line by line, each line with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import Accelerator, Architecture, Sourced
from slipway.plan.fabric import FabricSpec
from slipway.plan.figures import Basis, DeviceMemory, Figure, SequenceMemory
from slipway.plan.platform import ModelWithoutJobs
from slipway.planner.engines.registry import ENGINES
from slipway.planner.fabric.environment import variables_of
from slipway.planner.fleet.layouts import describe_layout
from slipway.planner.quantization import KV_BYTES, SCHEMES
from slipway.planner.units import GIB, MIB

from .price_date import dated


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One step: the quantity, the calculation, the result, how it is known, and the source."""

    quantity: str
    arithmetic: str
    result: str
    source: str
    basis: Basis | None = None  # None where it is plain arithmetic


def explain(
    model: ModelWithoutJobs,
    architecture: Architecture,
    accelerator: Accelerator | None,
    fabric: FabricSpec,
) -> tuple[Line, ...]:
    """Memory, then serving, replicas, startup and cost, and of a group its members' variables.
    `accelerator` is None on processors; `fabric` is that of the model's pool."""
    return (
        *_parameters(model, architecture),
        *_memory(model, architecture, accelerator),
        *_serving(model),
        *_startup(model),
        *_cost(model),
        *_members(model, fabric),
    )


def _parameters(model: ModelWithoutJobs, architecture: Architecture) -> Iterator[Line]:
    counted, origin = _facts(architecture)
    yield Line(
        quantity="parameters",
        arithmetic=f"{architecture.layers} layers of {architecture.hidden}, vocabulary"
        f" {architecture.vocabulary:,}",
        result=f"{model.parameters / 1e9:.2f} billion",
        source=f"{counted} ({origin})",
    )
    if model.active_parameters != model.parameters:
        yield Line(
            quantity="  of which active",
            arithmetic="the experts a token is routed to",
            result=f"{model.active_parameters / 1e9:.2f} billion",
            source=counted,
        )


def _facts(architecture: Architecture) -> tuple[str, str]:
    """The facts that the numbers are counted from, with their sources: a user's file was not
    checked."""
    if architecture.is_read:
        return "counted from the model's config.json", f"read from {architecture.source}"
    return "counted from the facts of catalog/models.yaml", _origin(architecture)


def _memory(
    model: ModelWithoutJobs, architecture: Architecture, accelerator: Accelerator | None
) -> Iterator[Line]:
    memory, engine = model.memory, ENGINES[model.replica.document["engine"]["kind"]]
    sources = engine.memory_sources(architecture, model.precision.weights)
    if accelerator is not None:
        printed = accelerator.offered_source or _origin(accelerator)
        yield Line(
            quantity=f"memory of one {model.accelerator}",
            arithmetic=f"{accelerator.device_mib:,} MiB",
            result=_gib(memory.device_bytes),
            source=f"catalog/accelerators.yaml ({printed})",
        )
        yield Line(
            quantity="  the engine may use",
            arithmetic=f"x {memory.usable_bytes / memory.device_bytes:.2f}",
            result=_gib(memory.usable_bytes),
            source="engine.gpu_memory_utilization",
        )
    scheme = SCHEMES[model.precision.weights]
    yield Line(
        quantity="  - weights on it",
        arithmetic=f"{model.precision.weights}: {scheme.bits} bits,"
        f" {describe_layout(model.layout)}, ± {_gib(memory.weights_error_bytes)}",
        result=_gib(memory.weights_bytes),
        source=sources.parts["weights"],
    )
    for name, size in _engine_parts(memory):
        if size:
            yield Line(
                quantity=f"  - {name}", arithmetic="", result=_gib(size), source=sources.engine
            )
    yield _kv_cache(memory, sources.kv_cache)
    yield from _cache(model, architecture, sources.sequences)


def _kv_cache(memory: DeviceMemory, source: str) -> Line:
    """What is left of a device, or what a replica was measured to have."""
    if not memory.kv_source:
        return Line(
            quantity="  = KV cache",
            arithmetic=f"what is left, ± {_gib(memory.error_bytes)}",
            result=_gib(memory.kv_cache_bytes),
            source=source,
        )
    parts = memory.weights_bytes + sum(size for _, size in _engine_parts(memory))
    return Line(
        quantity="  = KV cache",
        arithmetic=f"of the measured tokens; computed, {_gib(memory.usable_bytes - parts)}",
        result=_gib(memory.kv_cache_bytes),
        source=memory.kv_source,
        basis="measured",
    )


def _cache(model: ModelWithoutJobs, architecture: Architecture, blocks: str) -> Iterator[Line]:
    """The KV cache, and how much of it tokens and sequences hold."""
    memory, sequence = model.memory, model.memory.sequence
    engine, groups = model.replica.document["engine"], f", x {model.layout.data} (data parallel)"
    longest, most = engine["max_model_len"], engine["max_num_seqs"]
    yield _kv_per_token(model, architecture)
    mixed = sequence.windowed_block_bytes or sequence.state_bytes
    if mixed:
        yield _sequence(f"KV of the longest sequence, {longest:,}", sequence, longest, blocks)
        share = f"{sequence.held_bytes(longest):,} B x {longest:,} tokens"
    else:
        share = f"{memory.kv_bytes_per_token:,} B"
    yield Line(
        quantity="KV tokens of a replica",
        arithmetic="as the engine reports them"
        if memory.kv_source
        else f"{memory.kv_cache_bytes:,} B / {share}{groups}",
        result=f"{memory.kv_tokens:,}",
        source=memory.kv_source or "arithmetic",
        basis="measured" if memory.kv_source else None,
    )
    load = model.load
    length = round(load.input_tokens + load.output_tokens) if load else longest
    yield _sequence(f"KV of the mean request, {length:,}", sequence, length, blocks)
    if memory.started_cache_bytes > memory.kv_cache_bytes:
        yield Line(
            quantity="KV cache assumed, if it starts",
            arithmetic=f"of one sequence of {longest:,} tokens while its prompt is computed",
            result=_gib(memory.started_cache_bytes),
            source="it may fit: the errors decide",
        )
    yield Line(
        quantity="requests it holds at once",
        arithmetic=f"{memory.started_cache_bytes:,} B / {sequence.held_bytes(length):,} B, at most"
        f" {most}{groups}",
        result=f"{model.sequences_at_mean_length:,}",
        source="load, max_num_seqs and max_model_len of the model file",
    )


def _sequence(quantity: str, sequence: SequenceMemory, tokens: int, source: str) -> Line:
    """What one sequence holds of one device's cache."""
    blocks = -(-tokens // sequence.block_tokens)
    parts = [
        f"{blocks:,} blocks of {sequence.block_tokens} tokens x {sequence.full_block_bytes:,} B"
    ]
    if sequence.windowed_block_bytes:
        held = min(blocks, sequence.window_blocks)
        parts.append(f"{held:,} in the window x {sequence.windowed_block_bytes:,} B")
    if sequence.state_bytes:
        parts.append(f"{sequence.state_bytes:,} B of states")
    return Line(
        quantity=quantity,
        arithmetic=" + ".join(parts),
        result=_gib(sequence.held_bytes(tokens)),
        source=source,
    )


def _engine_parts(memory: DeviceMemory) -> tuple[tuple[str, int], ...]:
    return (
        ("activations", memory.activations_bytes),
        ("CUDA graphs", memory.graphs_bytes),
        ("communication buffers", memory.communication_bytes),
        ("context and runtime", memory.runtime_bytes),
        ("adapters", memory.adapters_bytes),
    )


def _kv_per_token(model: ModelWithoutJobs, architecture: Architecture) -> Line:
    width = KV_BYTES[model.precision.kv]
    latent, layout = architecture.latent, model.layout
    if latent is not None:
        per_layer = (latent.kv_lora_rank + latent.rope_dimensions) * width
        layers = model.memory.kv_bytes_per_token // per_layer
        values = f"({latent.kv_lora_rank} + {latent.rope_dimensions})"
        arithmetic = f"{layers} layers x {values} x {width} B, on every device"
        source = "multi-head latent attention, arXiv 2405.04434 §2.1"
    else:
        heads = kv_heads_per_device(architecture, layout.tensor)
        layers = model.memory.kv_bytes_per_token // (2 * heads * architecture.head_dim * width)
        arithmetic = f"2 x {layers} layers x {heads} KV heads x {architecture.head_dim} x {width} B"
        source = "grouped-query attention, vllm/v1/kv_cache_interface.py"
    return Line(
        quantity="KV of one token on a device",
        arithmetic=arithmetic,
        result=f"{model.memory.kv_bytes_per_token / 1024:.1f} KiB",
        source=source,
    )


def _serving(model: ModelWithoutJobs) -> Iterator[Line]:
    serving = model.serving
    if serving is not None:
        yield Line(
            quantity="sequences together",
            arithmetic="in one replica under its share of the load",
            result=str(serving.concurrency),
            source=serving.tpot_ms.source,
            basis=serving.tpot_ms.basis,
        )
        yield _figure("prompt tokens", serving.prefill_tokens_per_s)
        yield _figure("output tokens", serving.decode_tokens_per_s)
        yield _figure("TTFT", serving.ttft_ms)
        yield _figure("TPOT", serving.tpot_ms)
        yield _figure("a replica sustains", serving.requests_per_s)
    yield _figure("replicas needed", model.replicas_needed)


def _startup(model: ModelWithoutJobs) -> Iterator[Line]:
    for name, figure in model.cold_start.parts.items():
        yield _figure(f"startup: {name}", figure)
    yield _figure("startup", model.cold_start.total_s)
    if model.cold_start.cliff_s is not None:
        yield _figure("startup the ramp allows", model.cold_start.cliff_s)


def _cost(model: ModelWithoutJobs) -> Iterator[Line]:
    cost = model.cost
    priced = dated(cost.price_date, cost.price_age_days)
    yield _figure("cost", cost.usd_per_hour, note=f"; price of {priced}" if priced else "")
    yield _figure("cost a month", cost.usd_per_month)
    if cost.usd_per_million_output_tokens is not None:
        yield _figure("cost of output", cost.usd_per_million_output_tokens)


def _members(model: ModelWithoutJobs, fabric: FabricSpec) -> Iterator[Line]:
    for variable in variables_of(model, fabric):
        yield Line(
            quantity=f"member: {variable.name}",
            arithmetic=variable.reason
            if variable.override is None
            else f"overridden by the pool; default {variable.default or 'none'}",
            result=variable.value,
            source=f"{variable.source}, {variable.date}" if variable.date else variable.source,
        )


def _figure(quantity: str, figure: Figure, *, note: str = "") -> Line:
    digits = 0 if figure.unit == "replicas" or abs(figure.value) >= 100 else 2
    between = (
        ""
        if figure.low is None or figure.high is None
        else f"{figure.low:,.{digits}f} to {figure.high:,.{digits}f}"
    )
    return Line(
        quantity=quantity,
        arithmetic=between,
        result=f"{figure.value:,.{digits}f} {figure.unit}",
        source=f"{figure.source}{note}",
        basis=figure.basis,
    )


def _origin(fact: Sourced) -> str:
    return f"{fact.source}, {fact.date}, {fact.confidence}"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / MIB:.0f} MiB"
