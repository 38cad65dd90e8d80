"""The ways to serve a model that are worth planning, best first: engine settings, layout, pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slipway.config.catalog import Architecture
from slipway.config.document import Origin
from slipway.config.errors import Problem
from slipway.config.model import VllmEngine, parse_model
from slipway.inputs import PlanInputs
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.adapter import ProcessorReplica
from slipway.planner.engines.registry import ENGINES
from slipway.planner.fit import Deployment, Fit, answer_as_asked
from slipway.planner.fleet.layouts import tensor_layouts
from slipway.planner.supply.supply import Supply
from slipway.planner.units import GIB

from .request import Request, Values

# Tokens of the longest request, tried in turn: enough for a conversation with a long document, for
# a conversation, for a question.
LENGTHS = (16_384, 8192, 4096, 2048)
LENGTHS_ON_PROCESSORS = (2048, 1024)
# Requests decoded together, tried in turn.
BATCHES = (64, 32, 16, 8, 4, 2, 1)
BATCH_ON_PROCESSORS = 8
COMFORTABLE_LENGTH = 8192
COMFORTABLE_BATCH = 8
CACHES_GIB = (1, 2, 4, 8, 16)  # on processors, tried in turn
SHORTEST = 1024  # tokens for which a pool is said to hold a model
SHARE = 0.9  # of a device's memory: the default of `gpu_memory_utilization`
# Weights that vLLM makes from those that are published in 16 bits, while it loads them.
MADE_WHILE_LOADING = {"bf16": "fp8", "fp16": "fp8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`engine` and `parallel` are sections of the model file; `parallel` is None where a replica
    has one device. It is `comfortable` unless requests or batches are very small."""

    pools: tuple[str, ...]
    engine: Values
    parallel: Values | None = None
    comfortable: bool = True

    @property
    def devices(self) -> int:
        """Of one replica; 1 on processors."""
        return int((self.parallel or {}).get("tensor", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    weights: str
    layout: Layout
    length: int
    batch: int


def candidates(
    request: Request, supplies: Sequence[Supply], inputs: PlanInputs
) -> Sequence[Candidate]:
    """Those on the given pools, which have all accelerators or all processors."""
    if request.simulated:
        return list(_simulated(request, supplies, inputs))
    if any(supply.accelerator is not None for supply in supplies):
        found = list(_on_accelerators(request, supplies, inputs))
        # Short requests and tiny batches are a last resort.
        return sorted(found, key=lambda each: not each.comfortable)
    return [
        each
        for each in _on_processors(request, supplies)
        for supply in supplies
        if supply.pool in each.pools and _holds(request, supply, each, inputs)
    ]


def can_hold(architecture: Architecture, supply: Supply, inputs: PlanInputs) -> bool:
    """Whether one replica of a catalog's model fits on the empty pool with the shortest length."""
    length = min(architecture.context, SHORTEST)
    if supply.accelerator is not None:
        return any(
            _answer(architecture, supply, inputs, sizes).feasible
            for weights in _weights(architecture)
            for layout in tensor_layouts(supply.accelerators_per_node)
            for sizes in [_Sizes(weights=weights, layout=layout, length=length, batch=1)]
        )
    sizes_on_node = {"max_model_len": length, "max_num_seqs": 1}
    made = _on_node(architecture, sizes_on_node, supply, inputs)
    return isinstance(made, ProcessorReplica) and _has_room(supply, made)


def why_not(request: Request, supply: Supply, inputs: PlanInputs) -> str:
    """Why the pool cannot hold the model in any way that was tried: of the last one, which is the
    one with most devices."""
    architecture = request.weights.architecture
    if supply.accelerator is None:
        need = _memory_on_processors(request, supply, inputs)
        return f"a replica takes {need}, a node has {supply.node_memory_bytes / GIB:.1f} GiB"
    layout = list(tensor_layouts(supply.accelerators_per_node))[-1]
    length = min(architecture.context, request.max_model_len or LENGTHS[-1])
    sizes = _Sizes(weights=_weights(architecture)[-1], layout=layout, length=length, batch=1)
    reasons = _answer(architecture, supply, inputs, sizes).reasons
    return f"on {layout.tensor} x {supply.accelerator_name}, {'; '.join(reasons)}"


def _on_accelerators(
    request: Request, supplies: Sequence[Supply], inputs: PlanInputs
) -> Iterator[Candidate]:
    """Published weights before others, few devices before many, cheap pools before dear ones."""
    architecture = request.weights.architecture
    by_price = sorted(supplies, key=lambda each: each.device_usd_per_hour)
    most = max(supply.accelerators_per_node for supply in supplies)
    for weights in _weights(architecture):
        for layout in tensor_layouts(most):
            seen: set[_Sizes] = set()
            for supply in by_price:
                sizes = _sizes(request, supply, inputs, weights, layout)
                if sizes is None or sizes in seen:
                    continue
                seen.add(sizes)
                pools = [
                    each.pool
                    for each in supplies
                    if each.accelerators_per_node >= layout.tensor
                    and (each is supply or _answer(architecture, each, inputs, sizes).feasible)
                ]
                yield _candidate(architecture, sizes, pools)


def _candidate(architecture: Architecture, sizes: _Sizes, pools: Sequence[str]) -> Candidate:
    engine: dict[str, object] = {"kind": "vllm"}
    if sizes.weights != architecture.published_weights:
        engine["quantization"] = sizes.weights
    engine |= {"max_model_len": sizes.length, "max_num_seqs": sizes.batch}
    tensor = sizes.layout.tensor
    usual = min(architecture.context, COMFORTABLE_LENGTH)
    return Candidate(
        pools=tuple(pools),
        engine=engine,
        parallel={"tensor": tensor} if tensor > 1 else None,
        comfortable=sizes.length >= usual and sizes.batch >= COMFORTABLE_BATCH,
    )


def _sizes(
    request: Request, supply: Supply, inputs: PlanInputs, weights: str, layout: Layout
) -> _Sizes | None:
    """The longest length and the largest batch that surely fit, None where none does."""
    if layout.tensor > supply.accelerators_per_node:
        return None
    architecture = request.weights.architecture
    for length in _lengths(request, LENGTHS):
        alone = _Sizes(weights=weights, layout=layout, length=length, batch=1)
        if not _answer(architecture, supply, inputs, alone).feasible:
            continue
        for batch in BATCHES:
            sizes = _Sizes(weights=weights, layout=layout, length=length, batch=batch)
            answer = _answer(architecture, supply, inputs, sizes)
            if answer.feasible and answer.kv_tokens >= batch * request.tokens_of_a_request:
                return sizes
        return alone
    return None


def _answer(architecture: Architecture, supply: Supply, inputs: PlanInputs, sizes: _Sizes) -> Fit:
    deployment = Deployment(
        accelerator=supply.accelerator_name,
        layout=sizes.layout,
        precision=Precision(weights=sizes.weights, kv="bf16"),
        max_len=sizes.length,
        max_num_seqs=sizes.batch,
        utilization=SHARE,
    )
    return answer_as_asked(
        architecture, deployment, inputs.catalog.accelerators, supply.accelerators_per_node
    )


def _weights(architecture: Architecture) -> tuple[str, ...]:
    published = architecture.published_weights
    return tuple(filter(None, (published, MADE_WHILE_LOADING.get(published))))


def _lengths(request: Request, tried: Sequence[int]) -> Sequence[int]:
    context = request.weights.architecture.context
    wanted = [request.max_model_len] if request.max_model_len else tried
    shorter = [min(context, length) for length in wanted]
    return list(dict.fromkeys(shorter))


def _on_processors(request: Request, supplies: Sequence[Supply]) -> Iterator[Candidate]:
    """The longest length first, with the smallest KV cache that holds a request of it."""
    for length in _lengths(request, LENGTHS_ON_PROCESSORS):
        for cache in CACHES_GIB:
            engine = {
                "kind": "vllm",
                "dtype": "float32",
                "max_model_len": length,
                "max_num_seqs": BATCH_ON_PROCESSORS,
                "kv_cache": f"{cache}GiB",
            }
            for supply in supplies:
                yield Candidate(pools=(supply.pool,), engine=engine)


def _holds(request: Request, supply: Supply, candidate: Candidate, inputs: PlanInputs) -> bool:
    """Whether an empty node has room for a replica."""
    sizes = {key: each for key, each in candidate.engine.items() if key != "kind"}
    made = _on_node(request.weights.architecture, sizes, supply, inputs)
    return isinstance(made, ProcessorReplica) and _has_room(supply, made)


def _has_room(supply: Supply, replica: ProcessorReplica) -> bool:
    memory, cpu_mhz = replica.host_memory_bytes, replica.cpu_mhz
    return memory <= supply.node_memory_bytes and cpu_mhz <= supply.node_cpu_mhz


def _simulated(
    request: Request, supplies: Sequence[Supply], inputs: PlanInputs
) -> Iterator[Candidate]:
    profiles = sorted(inputs.artifacts.simulator_profiles)
    known = request.weights.known_as
    profile = next((each for each in profiles if each.endswith(known)), profiles[-1])
    length = _lengths(request, LENGTHS[1:])[0]
    engine = {"kind": "sim", "profile": profile, "max_model_len": length, "max_num_seqs": 64}
    for supply in supplies:
        yield Candidate(pools=(supply.pool,), engine=engine)


def _memory_on_processors(request: Request, supply: Supply, inputs: PlanInputs) -> str:
    """The memory of the smallest replica on processors."""
    length = _lengths(request, LENGTHS_ON_PROCESSORS)[-1]
    for cache in CACHES_GIB:
        sizes = {"max_model_len": length, "kv_cache": f"{cache}GiB"}
        made = _on_node(request.weights.architecture, sizes, supply, inputs)
        if isinstance(made, ProcessorReplica):
            return f"at least {made.host_memory_bytes / GIB:.1f} GiB"
    return f"more than {CACHES_GIB[-1]} GiB for its KV cache alone"


def _on_node(
    architecture: Architecture, sizes: Values, supply: Supply, inputs: PlanInputs
) -> ProcessorReplica | list[Problem]:
    engine = {"kind": "vllm", "architecture": "any", **sizes}
    values = {"name": "any", "source": {"path": "/any", "revision": "1"}, "engine": engine}
    model = parse_model(values, origin=Origin(source="catalog/models.yaml"))
    adapter = ENGINES[VllmEngine.TAG]
    return adapter.processor_replica(model, architecture, supply, inputs.artifacts)
