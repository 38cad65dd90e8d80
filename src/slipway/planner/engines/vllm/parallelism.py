"""Which layouts vLLM can run a model in, and why others are refused.

The rules are those of vLLM 0.32; each names the file that has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipway.architectures.padding import padded
from slipway.config.catalog import Architecture
from slipway.plan.figures import Layout, Precision
from slipway.planner.groups import GroupProblem, host_problems, stage_problems
from slipway.planner.quantization import SCHEMES
from slipway.planner.wording import counted

EXPERT_SIDE = "an expert's intermediate size"


# DEFAULT_VOCAB_PADDING_SIZE in vllm/model_executor/layers/vocab_parallel_embedding.py
VOCABULARY_MULTIPLE = 64


def layout_problems(
    architecture: Architecture, layout: Layout, precision: Precision, *, devices_per_node: int
) -> tuple[str, ...]:
    """Every reason why vLLM would refuse this layout; of one that it runs, why Slipway does not."""
    published = padded(architecture, precision.weights)
    refusals = (
        *_head_problems(published, layout.tensor),
        *_vocabulary_problems(published, layout.tensor),
        *_size_problems(published, layout, precision),
        *_expert_problems(published, layout),
        *map(_reason, stage_problems(published.layers, layout.pipeline)),
    )
    return refusals or tuple(map(str, host_problems(layout, devices_per_node)))


def stage_layers(layers: int, pipeline: int) -> tuple[range, ...]:
    """The layers of each pipeline stage, as vllm.distributed.utils.get_pp_indices divides them:
    remaining layers go to the stages before the last one, latest first."""
    counts = [layers // pipeline] * pipeline
    for index in range(layers % pipeline):
        counts[-2 - index] += 1
    ends = [sum(counts[: index + 1]) for index in range(pipeline)]
    return tuple(range(end - size, end) for end, size in zip(ends, counts, strict=True))


def expert_slices(layout: Layout) -> int:
    """The number of devices that each expert is sliced over: those not used by expert
    parallelism."""
    return max(1, layout.tensor * layout.data // layout.expert)


def _head_problems(architecture: Architecture, tensor: int) -> Iterator[str]:
    """verify_with_parallel_config in vllm/config/model.py for all heads; for those of keys and
    values the attention of each model, e.g. vllm/model_executor/models/llama.py; for linear
    attention gated_delta_net_state_shape in vllm/model_executor/layers/mamba/mamba_utils.py."""
    heads, kv_heads = architecture.heads, architecture.kv_heads
    if heads % tensor:
        yield f"{heads} attention heads cannot be divided by {tensor}"
    if architecture.latent is None and kv_heads % tensor and tensor % kv_heads:
        yield f"{kv_heads} KV heads can be neither divided over nor replicated on {tensor} devices"
    linear = architecture.linear_attention
    if linear is not None and linear.value_heads % tensor:
        yield f"{linear.value_heads} heads of linear attention cannot be divided by {tensor}"


def _vocabulary_problems(architecture: Architecture, tensor: int) -> Iterator[str]:
    """The token table is padded, then divided (VocabParallelEmbedding in
    vllm/model_executor/layers/vocab_parallel_embedding.py). LoRA adapters add no tokens to it."""
    padded = -(-architecture.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    if padded % tensor:
        yield (
            f"a vocabulary of {padded:,} (padded to a multiple of {VOCABULARY_MULTIPLE}) cannot be"
            f" divided by {tensor}"
        )


def _size_problems(
    architecture: Architecture, layout: Layout, precision: Precision
) -> Iterator[str]:
    """vllm/model_executor/layers/linear.py divides the sides of MLPs, and
    vllm/model_executor/layers/fused_moe/config.py those of experts. Groups that would be cut are
    refused by vllm/model_executor/layers/quantization (auto_awq.py, utils/fp8_utils.py) and by all
    kernels for bfloat16 in vllm/model_executor/kernels/linear/mixed_precision (GPTQ)."""
    scheme = SCHEMES[precision.weights]
    for name, size, slices in _split_sizes(architecture, layout):
        multiple = scheme.split_multiple
        if name == EXPERT_SIDE and scheme.expert_multiple is not None:
            multiple = scheme.expert_multiple
        if size % slices:
            yield f"{name} of {size} cannot be divided by {slices}"
        elif multiple is not None and size // slices % multiple:
            yield (
                f"{name} of {size} over {counted(slices, 'device')} is {size // slices}, not a"
                f" multiple of the group of {multiple} that {precision.weights} quantizes together"
            )


def _split_sizes(architecture: Architecture, layout: Layout) -> Iterator[tuple[str, int, int]]:
    """(what is divided, its size, the number of slices) for every divided dimension."""
    experts = architecture.experts
    if experts is None or experts.leading_dense_layers or experts.every > 1:
        yield "an intermediate size", architecture.intermediate, layout.tensor
    if experts is not None:
        yield EXPERT_SIDE, experts.intermediate, expert_slices(layout)
        if experts.shared:
            shared = experts.shared * experts.intermediate
            yield "the shared experts' intermediate size", shared, layout.tensor


def _expert_problems(architecture: Architecture, layout: Layout) -> Iterator[str]:
    """Each device has whole experts, some of them one more than others (determine_expert_map in
    vllm/model_executor/layers/fused_moe/expert_map_manager.py)."""
    if layout.expert == 1:
        return
    if architecture.experts is None:
        yield f"expert parallelism over {layout.expert} needs a mixture of experts"
        return
    devices, count = layout.tensor * layout.data, architecture.experts.count
    if devices % layout.expert:
        yield f"{devices} devices (tensor x data) cannot be divided by expert {layout.expert}"
    if count < layout.expert:
        yield f"{count} experts are too few for {layout.expert} devices to have one each"


def _reason(problem: GroupProblem) -> str:
    return problem.reason
