"""Which layouts vLLM can run a model in, and why others are refused."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.memory.quantization import SCHEMES

EXPERT_SIDE = "an expert's intermediate size"
DEVICES_PER_NODE = 8  # of the servers that models are split in; the same for all clouds and vendors


def layout_problems(
    architecture: Architecture, layout: Layout, precision: Precision, *, devices_per_node: int
) -> tuple[str, ...]:
    """Every reason why vLLM would refuse this layout, or run it over a slow link.

    The rules on heads are those of vllm/config/model.py and vllm/config/parallel.py, the rule on
    groups is that of vllm/model_executor/layers/quantization (AWQ, GPTQ, block FP8).
    """
    return (
        *_head_problems(architecture, layout.tensor),
        *_size_problems(architecture, layout, precision),
        *_expert_problems(architecture, layout),
        *_stage_problems(architecture, layout.pipeline),
        *_node_problems(layout, devices_per_node),
    )


def stage_layers(layers: int, pipeline: int) -> tuple[range, ...]:
    """The layers of each pipeline stage, as vllm.distributed.utils.get_pp_indices divides them:
    remaining layers go to the stages before the last one, latest first."""
    counts = [layers // pipeline] * pipeline
    for index in range(layers % pipeline):
        counts[-2 - index] += 1
    ends = [sum(counts[: index + 1]) for index in range(pipeline)]
    return tuple(range(end - size, end) for end, size in zip(ends, counts, strict=True))


def kv_heads_per_device(architecture: Architecture, tensor: int) -> int:
    """KV heads are divided, and replicated once there are more devices than heads."""
    return max(1, -(-architecture.kv_heads // tensor))


def expert_slices(layout: Layout) -> int:
    """The number of devices that each expert is sliced over: those not used by expert
    parallelism."""
    return max(1, layout.tensor * layout.data // layout.expert)


def _head_problems(architecture: Architecture, tensor: int) -> Iterator[str]:
    heads, kv_heads = architecture.heads, architecture.kv_heads
    if heads % tensor:
        yield f"{heads} attention heads cannot be divided by {tensor}"
    if architecture.latent is None and kv_heads % tensor and tensor % kv_heads:
        yield f"{kv_heads} KV heads neither divide nor are divided by {tensor}"


def _size_problems(
    architecture: Architecture, layout: Layout, precision: Precision
) -> Iterator[str]:
    scheme = SCHEMES[precision.weights]
    for name, size, slices in _split_sizes(architecture, layout):
        multiple = scheme.split_multiple
        if name == EXPERT_SIDE and scheme.expert_multiple is not None:
            multiple = scheme.expert_multiple
        if size % slices:
            yield f"{name} of {size} cannot be divided by {slices}"
        elif multiple is not None and size // slices % multiple:
            yield (
                f"{name} of {size} over {slices} devices is {size // slices}, not a multiple of the"
                f" group of {multiple} that {precision.weights} quantizes together"
            )


def _split_sizes(architecture: Architecture, layout: Layout) -> Iterator[tuple[str, int, int]]:
    """(what is divided, its size, the number of slices) for every divided dimension."""
    experts = architecture.experts
    if experts is None or experts.leading_dense_layers:
        yield "an intermediate size", architecture.intermediate, layout.tensor
    if experts is not None:
        yield EXPERT_SIDE, experts.intermediate, expert_slices(layout)
        if experts.shared:
            shared = experts.shared * experts.intermediate
            yield "the shared experts' intermediate size", shared, layout.tensor


def _expert_problems(architecture: Architecture, layout: Layout) -> Iterator[str]:
    if layout.expert == 1:
        return
    if architecture.experts is None:
        yield f"expert parallelism over {layout.expert} needs a mixture of experts"
        return
    devices = layout.tensor * layout.data
    if devices % layout.expert:
        yield f"{devices} devices (tensor x data) cannot be divided by expert {layout.expert}"
    if architecture.experts.count % layout.expert:
        yield f"{architecture.experts.count} experts cannot be divided by {layout.expert}"


def _stage_problems(architecture: Architecture, pipeline: int) -> Iterator[str]:
    if pipeline > architecture.layers:
        yield f"{architecture.layers} layers are too few for {pipeline} pipeline stages"


def _node_problems(layout: Layout, devices_per_node: int) -> Iterator[str]:
    tensor, devices, nodes = layout.tensor, layout.devices, layout.nodes(devices_per_node)
    if tensor > devices_per_node:
        yield (
            f"a tensor-parallel group of {tensor} does not fit in a node of {devices_per_node}"
            " devices: split over nodes by pipeline"
        )
    elif devices % nodes:
        yield (
            f"{devices} devices cannot be divided evenly over the {nodes} nodes of"
            f" {devices_per_node} devices that they need"
        )
    elif devices // nodes % tensor:
        yield (
            f"{devices} devices over {nodes} nodes are {devices // nodes} on each, which cannot be"
            f" divided into tensor-parallel groups of {tensor}"
        )
