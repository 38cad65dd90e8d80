"""Whether a model fits: the memory left for the KV cache, or why it does not fit and what would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from slipway.config.catalog import Accelerator, Architecture
from slipway.config.model import VllmEngine
from slipway.plan.figures import DeviceMemory, Layout, Precision
from slipway.planner.engines.adapter import AcceleratorReplica, EngineAdapter, MemorySettings
from slipway.planner.engines.registry import ENGINES
from slipway.planner.hardware import DEVICES_PER_NODE
from slipway.planner.units import GIB

from .verdict import Verdict, verdict, what_decides

# The shortest useful length where none is asked for: a prompt and an answer.
SHORTEST_LENGTH = 2048

BF16 = Precision()
ONE_DEVICE = Layout()
REPLICA_SIZES = (1, 2, 4, 8, 16, 32, 64)  # devices
# Schemes to try instead: wider ones where a scheme's groups cannot be split.
OTHER_WEIGHTS = {
    "fp32": ("bf16", "fp8", "awq"),
    "bf16": ("fp8", "awq"),
    "fp16": ("fp8", "awq"),
    "fp8": ("awq",),
    "fp8-block": ("awq",),
    "int8": ("awq",),
    "awq": ("fp8",),
    "gptq": ("fp8",),
    "w4a16": ("fp8",),
    "w4a16-asym": ("fp8",),
    "nvfp4": ("fp8",),
}
NARROWEST_KV = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The replica in question. Without `max_len`, the longest length that fits is computed, up to
    the model's context."""

    accelerator: str  # catalog key
    engine: str = VllmEngine.TAG
    layout: Layout = ONE_DEVICE
    precision: Precision = BF16
    max_len: int | None = None
    max_num_seqs: int = 256  # sequences decoded together at most
    utilization: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`reasons` say why it does not fit, or what decides whether it does; `suggestions` are options
    that would surely make it fit, nearest first.

    `kv_bytes_per_token` is that of the whole model; `memory` has one device's share. `max_len` is
    the longest sequence assumed. A replica that the engine refuses has no tokens and no requests.
    """

    deployment: Deployment
    verdict: Verdict
    reasons: tuple[str, ...]
    suggestions: tuple[str, ...]
    max_len: int
    kv_bytes_per_token: int
    kv_tokens: int
    max_concurrent_requests: int  # of max_len tokens each, at most max_num_seqs
    memory: DeviceMemory

    @property
    def feasible(self) -> bool:
        return self.verdict == "fits"


Change = tuple[str, Deployment]  # options of the command, and the deployment they lead to


def fit(
    architecture: Architecture,
    deployment: Deployment,
    accelerators: Mapping[str, Accelerator],
    *,
    devices_per_node: int = DEVICES_PER_NODE,
) -> Fit:
    """Whether one replica fits. `accelerators` come from the catalog."""
    answer = answer_as_asked(architecture, deployment, accelerators, devices_per_node)
    unserved = ENGINES[deployment.engine].accelerator_problems(
        deployment.accelerator, accelerators[deployment.accelerator]
    )
    if answer.feasible or unserved:
        return answer
    suggestions = _suggestions(architecture, answer, accelerators, devices_per_node)
    return replace(answer, suggestions=tuple(dict.fromkeys(suggestions)))


def replica_layout(
    *,
    devices: int | None,
    tensor: int | None,
    pipeline: int | None,
    devices_per_node: int = DEVICES_PER_NODE,
) -> Layout:
    """The layout for the given options: tensor parallel in a node, pipeline across nodes.

    Raises ValueError if the numbers contradict each other.
    """
    if devices is None:
        return Layout(tensor=tensor or 1, pipeline=pipeline or 1)
    if tensor is None:
        tensor = devices // pipeline if pipeline else _widest(devices, devices_per_node)
    layout = Layout(tensor=tensor, pipeline=pipeline or max(1, devices // tensor))
    if layout.devices != devices:
        raise ValueError(
            f"{devices} devices are not tensor {layout.tensor} x pipeline {layout.pipeline}"
        )
    return layout


def _widest(devices: int, devices_per_node: int) -> int:
    """The largest group on one node that divides the devices."""
    return max(size for size in range(1, devices_per_node + 1) if devices % size == 0)


def answer_as_asked(
    architecture: Architecture,
    deployment: Deployment,
    accelerators: Mapping[str, Accelerator],
    devices_per_node: int,
) -> Fit:
    """`fit` without suggestions, which take many times as long."""
    engine = ENGINES[deployment.engine]
    replica = _replica(architecture, deployment, accelerators, devices_per_node)
    refusals = tuple(_refusals(engine, replica, deployment.max_len or 0))
    length = deployment.max_len or _sure_length(engine, replica)
    replica = replace(replica, max_model_len=length)
    memory = engine.device_memory(replica)
    whole_model = engine.device_memory(replace(replica, layout=ONE_DEVICE))
    found: Verdict = "cannot_run" if refusals else verdict(memory)
    runs = found in {"fits", "may_fit"}
    return Fit(
        deployment=deployment,
        verdict=found,
        reasons=refusals or tuple(_memory_reasons(engine, replica, memory)),
        suggestions=(),
        max_len=length,
        kv_bytes_per_token=whole_model.kv_bytes_per_token,
        kv_tokens=0 if refusals else memory.kv_tokens,
        max_concurrent_requests=_at_once(deployment, memory) if runs else 0,
        memory=memory,
    )


def _replica(
    architecture: Architecture,
    deployment: Deployment,
    accelerators: Mapping[str, Accelerator],
    devices_per_node: int,
) -> AcceleratorReplica:
    return AcceleratorReplica(
        architecture=architecture,
        accelerator_name=deployment.accelerator,
        accelerator=accelerators[deployment.accelerator],
        devices_per_node=devices_per_node,
        layout=deployment.layout,
        precision=deployment.precision,
        max_model_len=deployment.max_len or architecture.context,
        max_num_seqs=deployment.max_num_seqs,
        memory=MemorySettings(utilization=deployment.utilization),
    )


def _refusals(engine: EngineAdapter, replica: AcceleratorReplica, length: int) -> Iterator[str]:
    """Why the engine does not start, whatever the memory."""
    yield from engine.replica_problems(replica)
    context = replica.architecture.context
    if length > context:
        yield f"{length:,} tokens are more than the {context:,} it was trained for"


def _at_once(deployment: Deployment, memory: DeviceMemory) -> int:
    """A replica that starts has room for one request at least."""
    held = max(deployment.layout.data, memory.max_sequences_at_full_length)
    return min(held, deployment.layout.data * deployment.max_num_seqs)


def _sure_length(engine: EngineAdapter, replica: AcceleratorReplica) -> int:
    """The longest length that surely fits despite the error, at least SHORTEST_LENGTH."""
    memory = engine.device_memory(replica)
    longest = engine.longest_sequence(replica, memory.kv_cache_bytes - memory.error_bytes)
    return min(replica.architecture.context, max(SHORTEST_LENGTH, longest))


def _memory_reasons(
    engine: EngineAdapter, replica: AcceleratorReplica, memory: DeviceMemory
) -> Iterator[str]:
    """Why it does not fit, or what decides whether it does."""
    found, cache = verdict(memory), memory.kv_cache_bytes
    if found == "fits":
        return
    if found == "may_fit":
        yield what_decides(memory, replica.max_model_len)
    elif cache < 0:
        taken = memory.usable_bytes - memory.weights_bytes - cache
        yield (
            f"weights take {_gib(memory.weights_bytes)} and the engine {_gib(taken)} of the"
            f" {_gib(memory.usable_bytes)} usable on each device: {_gib(-cache)} short"
        )
    else:
        longest = engine.longest_sequence(replica, cache)
        yield (
            f"the KV cache that is left, {_gib(cache)}, holds one sequence of {longest:,} tokens,"
            f" not of {replica.max_model_len:,}"
        )


def _suggestions(
    architecture: Architecture,
    refused: Fit,
    accelerators: Mapping[str, Accelerator],
    devices_per_node: int,
) -> Iterator[str]:
    """The first change of each kind that is enough on its own."""
    deployment = refused.deployment
    kinds = (
        _other_sizes(deployment, devices_per_node),
        _pipelined(deployment),
        *([change] for change in _other_weights(architecture, deployment)),
        _narrower_kv(deployment),
        _shorter(refused, _replica(architecture, deployment, accelerators, devices_per_node)),
        _larger_devices(deployment, accelerators),
    )
    for kind in kinds:
        for options, changed in kind:
            answer = answer_as_asked(architecture, changed, accelerators, devices_per_node)
            if answer.feasible:
                hosts = changed.layout.nodes(devices_per_node)
                over = f", on {hosts} hosts" if hosts > 1 else ""
                yield f"{options}: {answer.kv_tokens:,} tokens of KV cache{over}"
                break


def _other_sizes(deployment: Deployment, devices_per_node: int) -> Iterator[Change]:
    """Nearest number of devices first, smaller before larger; pipeline parallel only across
    nodes."""
    now = deployment.layout.devices
    widest = max(size for size in REPLICA_SIZES if size <= devices_per_node)
    for devices in sorted(REPLICA_SIZES, key=lambda size: max(size / now, now / size)):
        tensor = min(devices, widest)
        layout = Layout(tensor=tensor, pipeline=devices // tensor)
        yield _options(layout), replace(deployment, layout=layout)


def _pipelined(deployment: Deployment) -> Iterator[Change]:
    """The same devices with less tensor parallelism, the largest first."""
    now = deployment.layout
    for pipeline in REPLICA_SIZES[1:]:
        if now.tensor % pipeline == 0:
            layout = replace(now, tensor=now.tensor // pipeline, pipeline=now.pipeline * pipeline)
            yield _options(layout), replace(deployment, layout=layout)


def _options(layout: Layout) -> str:
    pipeline = f" --pp {layout.pipeline}" if layout.pipeline > 1 else ""
    return f"--count {layout.devices} --tp {layout.tensor}{pipeline}"


def _other_weights(architecture: Architecture, deployment: Deployment) -> Iterator[Change]:
    precision = deployment.precision
    others = OTHER_WEIGHTS.get(precision.weights, ())
    if ENGINES[deployment.engine].weights_problems(architecture, precision.weights):
        others = (architecture.published_weights,)
    for scheme in others:
        changed = replace(precision, weights=scheme)
        yield f"--quant {scheme}", replace(deployment, precision=changed)


def _narrower_kv(deployment: Deployment) -> Iterator[Change]:
    if deployment.precision.kv != NARROWEST_KV:
        narrower = replace(deployment.precision, kv=NARROWEST_KV)
        yield f"--kv-dtype {NARROWEST_KV}", replace(deployment, precision=narrower)


def _shorter(refused: Fit, replica: AcceleratorReplica) -> Iterator[Change]:
    deployment, memory = refused.deployment, refused.memory
    sure = memory.kv_cache_bytes - memory.error_bytes
    longest = ENGINES[deployment.engine].longest_sequence(replica, sure)
    if deployment.max_len is not None and longest >= SHORTEST_LENGTH:
        yield f"--max-len {longest}", replace(deployment, max_len=longest)


def _larger_devices(
    deployment: Deployment, accelerators: Mapping[str, Accelerator]
) -> Iterator[Change]:
    now = accelerators[deployment.accelerator].memory_mib
    larger = {key: item.memory_mib for key, item in accelerators.items() if item.memory_mib > now}
    for key in sorted(larger, key=lambda key: larger[key]):
        yield f"--gpu {key}", replace(deployment, accelerator=key)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
