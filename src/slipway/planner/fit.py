"""Whether a model fits: the memory left for the KV cache, or why it does not fit and what would."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from slipway.config.catalog import Accelerator, Architecture
from slipway.plan.figures import DeviceMemory, Layout, Precision
from slipway.planner.engines.vllm.kv_cache import (
    in_flight_tokens,
    kv_bytes_per_token,
    sequence_memory,
)
from slipway.planner.engines.vllm.memory import ONE_DEVICE, default_batched_tokens, device_memory
from slipway.planner.engines.vllm.parallelism import DEVICES_PER_NODE
from slipway.planner.engines.vllm.precisions import engine_problems, published_problems
from slipway.planner.engines.vllm.validity import replica_problems
from slipway.planner.units import GIB

from .quantization import KV_BYTES
from .verdict import Verdict, verdict, what_decides

# The shortest useful length where none is asked for: a prompt and an answer.
SHORTEST_LENGTH = 2048

BF16 = Precision()
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
    answer = _answer(architecture, deployment, accelerators, devices_per_node)
    unserved = engine_problems(deployment.accelerator, accelerators[deployment.accelerator])
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


def _answer(
    architecture: Architecture,
    deployment: Deployment,
    accelerators: Mapping[str, Accelerator],
    devices_per_node: int,
) -> Fit:
    accelerator, precision = accelerators[deployment.accelerator], deployment.precision
    refusals = tuple(_refusals(architecture, deployment, accelerator, devices_per_node))
    length = deployment.max_len or _sure_length(architecture, accelerator, deployment)
    memory = _memory(architecture, accelerator, deployment, length)
    found: Verdict = "cannot_run" if refusals else verdict(memory)
    runs = found in {"fits", "may_fit"}
    return Fit(
        deployment=deployment,
        verdict=found,
        reasons=refusals
        or tuple(_memory_reasons(architecture, accelerator, deployment, memory, length)),
        suggestions=(),
        max_len=length,
        kv_bytes_per_token=kv_bytes_per_token(architecture, bytes_per_value=KV_BYTES[precision.kv]),
        kv_tokens=0 if refusals else memory.kv_tokens,
        max_concurrent_requests=_at_once(deployment, memory) if runs else 0,
        memory=memory,
    )


def _refusals(
    architecture: Architecture,
    deployment: Deployment,
    accelerator: Accelerator,
    devices_per_node: int,
) -> Iterator[str]:
    """Why the engine does not start, whatever the memory."""
    yield from replica_problems(
        architecture,
        deployment.accelerator,
        accelerator,
        layout=deployment.layout,
        precision=deployment.precision,
        devices_per_node=devices_per_node,
    )
    length, context = deployment.max_len or 0, architecture.context
    if length > context:
        yield f"{length:,} tokens are more than the {context:,} it was trained for"


def _at_once(deployment: Deployment, memory: DeviceMemory) -> int:
    """A replica that starts has room for one request at least."""
    held = max(deployment.layout.data, memory.max_sequences_at_full_length)
    return min(held, deployment.layout.data * deployment.max_num_seqs)


def _sure_length(
    architecture: Architecture, accelerator: Accelerator, deployment: Deployment
) -> int:
    """The longest length that fits whatever the error, and is long enough for an answer."""
    memory = _memory(architecture, accelerator, deployment, architecture.context)
    sure = memory.kv_cache_bytes - memory.error_bytes
    longest = _longest(architecture, accelerator, deployment, sure)
    return min(architecture.context, max(SHORTEST_LENGTH, longest))


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


def _longest(
    architecture: Architecture, accelerator: Accelerator, deployment: Deployment, cache: int
) -> int:
    layout = deployment.layout
    return longest_sequence(
        architecture,
        cache,
        bytes_per_value=KV_BYTES[deployment.precision.kv],
        layout=layout,
        in_flight=in_flight_tokens(layout, default_batched_tokens(accelerator)),
    )


def _memory(
    architecture: Architecture, accelerator: Accelerator, deployment: Deployment, length: int
) -> DeviceMemory:
    return device_memory(
        architecture,
        accelerator,
        layout=deployment.layout,
        precision=deployment.precision,
        max_len=length,
        max_num_seqs=deployment.max_num_seqs,
        utilization=deployment.utilization,
    )


def _memory_reasons(
    architecture: Architecture,
    accelerator: Accelerator,
    deployment: Deployment,
    memory: DeviceMemory,
    length: int,
) -> Iterator[str]:
    """Why it does not fit, or what decides whether it does."""
    found, cache = verdict(memory), memory.kv_cache_bytes
    if found == "fits":
        return
    if found == "may_fit":
        yield what_decides(memory, length)
    elif cache < 0:
        engine = memory.usable_bytes - memory.weights_bytes - cache
        yield (
            f"weights take {_gib(memory.weights_bytes)} and the engine {_gib(engine)} of the"
            f" {_gib(memory.usable_bytes)} usable on each device: {_gib(-cache)} short"
        )
    else:
        longest = _longest(architecture, accelerator, deployment, cache)
        yield (
            f"the KV cache that is left, {_gib(cache)}, holds one sequence of {longest:,} tokens,"
            f" not of {length:,}"
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
        _shorter(architecture, refused, accelerators),
        _larger_devices(deployment, accelerators),
    )
    for kind in kinds:
        for options, changed in kind:
            answer = _answer(architecture, changed, accelerators, devices_per_node)
            if answer.feasible:
                yield f"{options}: {answer.kv_tokens:,} tokens of KV cache"
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
    if published_problems(architecture, precision.weights):
        others = (architecture.published_weights,)
    for scheme in others:
        changed = replace(precision, weights=scheme)
        yield f"--quant {scheme}", replace(deployment, precision=changed)


def _narrower_kv(deployment: Deployment) -> Iterator[Change]:
    if deployment.precision.kv != NARROWEST_KV:
        narrower = replace(deployment.precision, kv=NARROWEST_KV)
        yield f"--kv-dtype {NARROWEST_KV}", replace(deployment, precision=narrower)


def _shorter(
    architecture: Architecture, refused: Fit, accelerators: Mapping[str, Accelerator]
) -> Iterator[Change]:
    deployment, memory = refused.deployment, refused.memory
    accelerator = accelerators[deployment.accelerator]
    sure = memory.kv_cache_bytes - memory.error_bytes
    longest = _longest(architecture, accelerator, deployment, sure)
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
