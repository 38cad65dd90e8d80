"""Time of one forward pass of a replica: the sum of its kernels.

A layer has the projections of its attention (queries, keys, values, output, or those of MLA),
attention over the KV cache, an MLP or a mixture of experts, two norms, and two all-reduces where
devices share it. A pass goes through every pipeline stage, and so takes the sum of their times and
of the transfers between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slipway.architectures.parameters import kv_heads_per_device
from slipway.config.catalog import Architecture, LatentAttention, MixtureOfExperts
from slipway.plan.figures import Layout, Precision
from slipway.planner.engines.vllm.parallelism import expert_slices
from slipway.planner.hardware import Hardware
from slipway.planner.quantization import KV_BYTES

from .kernels import EFFICIENCIES, Efficiencies, Kernels

# Tensors of hidden size that a pipeline stage sends on: hidden states and residual
# (make_empty_intermediate_tensors_factory in vllm/model_executor/models).
STAGE_TENSORS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The work of one forward pass of a replica.

    Each of `prompts` adds `prompt_tokens` new tokens after `cached_tokens` whose KV is cached; each
    of `decodes` adds one token after `context_tokens`.
    """

    prompts: float = 0.0
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    decodes: float = 0.0
    context_tokens: float = 0.0

    @property
    def sequences(self) -> float:
        return self.prompts + self.decodes

    @property
    def tokens(self) -> float:
        return self.prompts * self.prompt_tokens + self.decodes


def prefill(tokens: float, *, cached: float = 0.0) -> Pass:
    """One prompt: `tokens` to compute after `cached` ones."""
    return Pass(prompts=1, prompt_tokens=tokens, cached_tokens=cached)


def decode(sequences: float, *, context: float) -> Pass:
    """The next token of every sequence, each `context` tokens long."""
    return Pass(decodes=sequences, context_tokens=context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A model in a layout and precision, and the kernels of each device that runs it."""

    architecture: Architecture
    layout: Layout
    kv_bytes_per_value: int
    kernels: Kernels


def machine(
    architecture: Architecture,
    hardware: Hardware,
    *,
    layout: Layout,
    precision: Precision,
    efficiencies: Efficiencies = EFFICIENCIES,
) -> Machine:
    return Machine(
        architecture=architecture,
        layout=layout,
        kv_bytes_per_value=KV_BYTES[precision.kv],
        kernels=Kernels.of(hardware, precision.weights, efficiencies),
    )


def pass_ms(machine: Machine, work: Pass) -> float:
    """Milliseconds from the first layer to the logits, through every pipeline stage."""
    return sum(pass_parts_ms(machine, work).values())


def pass_parts_ms(machine: Machine, work: Pass) -> Mapping[str, float]:
    """The milliseconds of a pass by kind of work.

    Data-parallel ranks divide the sequences and run at the same time; the experts of a mixture
    see the tokens of all ranks.
    """
    architecture, layout = machine.architecture, machine.layout
    kernels, layers = machine.kernels, architecture.layers
    ranks = layout.data
    tokens = work.tokens / ranks
    experts = architecture.experts
    sparse = layers - experts.leading_dense_layers if experts else 0
    dense = layers - sparse
    hidden = architecture.hidden
    seconds = {
        "projections": layers * _projections(kernels, architecture, layout.tensor, tokens),
        "attention": _attention(machine, work),
        "mlp": dense
        * _mlp(kernels, architecture, layout.tensor, architecture.intermediate, tokens),
        "experts": sparse * _experts(kernels, architecture, layout, work.tokens),
        "norms": layers * 2 * kernels.vectors(4 * hidden * tokens),
        "all-reduce": (layers + dense + 1) * kernels.all_reduce(layout.tensor, hidden * tokens)
        + sparse * _experts_all_reduce(kernels, layout, hidden * work.tokens),
        "head": kernels.product_16bit(
            rows=work.sequences / ranks,
            columns=architecture.vocabulary / layout.tensor,
            depth=hidden,
        ),
        "pipeline": _stage_transfers(kernels, layout, STAGE_TENSORS * hidden * tokens),
    }
    return {part: 1000 * time for part, time in seconds.items()}


def _projections(kernels: Kernels, architecture: Architecture, tensor: int, tokens: float) -> float:
    """Queries, keys, values and output of one layer."""
    if architecture.latent is not None:
        return _latent_projections(kernels, architecture, architecture.latent, tensor, tokens)
    queries = architecture.heads * architecture.head_dim / tensor
    keys = kv_heads_per_device(architecture, tensor) * architecture.head_dim
    hidden = architecture.hidden
    return kernels.product(rows=tokens, columns=queries + 2 * keys, depth=hidden) + kernels.product(
        rows=tokens, columns=hidden, depth=queries
    )


def _latent_projections(
    kernels: Kernels,
    architecture: Architecture,
    latent: LatentAttention,
    tensor: int,
    tokens: float,
) -> float:
    """MLA: down-projections to the latents, up-projections to the heads, and the output; only the
    up-projections are divided."""
    heads, hidden = architecture.heads / tensor, architecture.hidden
    query_dim = latent.nope_dimensions + latent.rope_dimensions
    rank = latent.q_lora_rank or 0
    down = rank + latent.kv_lora_rank + latent.rope_dimensions
    shapes = (
        (down, hidden),
        (heads * query_dim, rank or hidden),
        (heads * (latent.nope_dimensions + latent.value_dimensions), latent.kv_lora_rank),
        (hidden, heads * latent.value_dimensions),
    )
    return sum(kernels.product(rows=tokens, columns=n, depth=k) for n, k in shapes)


def _attention(machine: Machine, work: Pass) -> float:
    """Attention of all layers; those with a sliding window look back only that far."""
    window = machine.architecture.sliding_window
    if window is None:
        return machine.architecture.layers * _layer_attention(machine, work, None)
    full = machine.architecture.layers - window.layers
    return full * _layer_attention(machine, work, None) + window.layers * _layer_attention(
        machine, work, window.tokens
    )


def _layer_attention(machine: Machine, work: Pass, window: int | None) -> float:
    kernels, ranks = machine.kernels, machine.layout.data
    seconds = 0.0
    if work.prompts:
        pairs = work.prompts / ranks * _pairs(work.prompt_tokens, work.cached_tokens, window)
        seconds += kernels.prompt_attention(pairs * _prompt_operations_per_pair(machine))
    if work.decodes:
        seen = work.context_tokens if window is None else min(work.context_tokens, window)
        pairs = work.decodes / ranks * seen
        seconds += kernels.decode_attention(
            pairs * _decode_operations_per_pair(machine), pairs * _kv_bytes_per_pair(machine)
        )
    return seconds


def _pairs(tokens: float, cached: float, window: int | None) -> float:
    """(query, key) pairs of a causal prompt: token i attends to min(window, cached + i) tokens."""
    if window is None or cached + tokens <= window:
        return tokens * cached + tokens * tokens / 2
    growing = max(0.0, window - cached)  # tokens that the window does not limit yet
    return growing * cached + growing * growing / 2 + (tokens - growing) * window


def _prompt_operations_per_pair(machine: Machine) -> float:
    """A multiplication and an addition per dimension of the scores and of the values."""
    architecture, latent = machine.architecture, machine.architecture.latent
    heads = architecture.heads / machine.layout.tensor
    if latent is None:
        return 4 * heads * architecture.head_dim
    return 2 * heads * (latent.nope_dimensions + latent.rope_dimensions + latent.value_dimensions)


def _decode_operations_per_pair(machine: Machine) -> float:
    """MLA decodes in the latent space: every head works on the whole latent vector."""
    architecture, latent = machine.architecture, machine.architecture.latent
    if latent is None:
        return _prompt_operations_per_pair(machine)
    heads = architecture.heads / machine.layout.tensor
    return 2 * heads * (2 * latent.kv_lora_rank + latent.rope_dimensions)


def _kv_bytes_per_pair(machine: Machine) -> float:
    architecture, latent = machine.architecture, machine.architecture.latent
    width = machine.kv_bytes_per_value
    if latent is not None:
        return width * (latent.kv_lora_rank + latent.rope_dimensions)
    kv_heads = kv_heads_per_device(architecture, machine.layout.tensor)
    return 2 * width * kv_heads * architecture.head_dim


def _mlp(
    kernels: Kernels, architecture: Architecture, tensor: int, intermediate: float, tokens: float
) -> float:
    """Up (and gate), activation function, down."""
    inner = intermediate / tensor
    ups = _matrices_before_activation(architecture)
    hidden = architecture.hidden
    return (
        kernels.product(rows=tokens, columns=ups * inner, depth=hidden)
        + kernels.vectors((ups + 1) * inner * tokens)
        + kernels.product(rows=tokens, columns=hidden, depth=inner)
    )


def _experts(kernels: Kernels, architecture: Architecture, layout: Layout, tokens: float) -> float:
    """One layer's router, shared experts and routed experts, for the `tokens` of all ranks."""
    mixture = architecture.experts
    if mixture is None:
        return 0.0
    hidden, local = architecture.hidden, tokens / layout.data
    seconds = kernels.product_16bit(rows=local, columns=mixture.count, depth=hidden)
    if mixture.shared:
        shared = mixture.shared * mixture.intermediate
        seconds += _mlp(kernels, architecture, layout.tensor, shared, local)
    picked = kernels.experts(
        inputs=tokens / layout.expert,
        rows=tokens * mixture.per_token / layout.expert,
        columns=mixture.intermediate / expert_slices(layout),
        depth=hidden,
        matrices=_matrices_before_activation(architecture) + 1,
        count=mixture.count,
        touched=_touched(mixture, tokens) / layout.expert,
    )
    return seconds + picked


def _experts_all_reduce(kernels: Kernels, layout: Layout, values: float) -> float:
    """The all-reduce after the experts. With data parallelism it spans all ranks: vLLM gathers the
    tokens before and scatters the sums after, which together is a ring over all of them."""
    return kernels.all_reduce(layout.tensor * layout.data, values)


def _stage_transfers(kernels: Kernels, layout: Layout, values: float) -> float:
    """Every stage sends `values` to the next one.

    Each device of a tensor-parallel group sends its part to its peer, and the receivers gather the
    parts (GroupCoordinator.isend_tensor_dict in vllm/distributed/parallel_state.py). On another
    node, the parts share its network.
    """
    hops = layout.pipeline - 1
    devices = layout.tensor * layout.pipeline
    over_nodes = -(-devices // (kernels.devices_per_node or devices)) - 1
    return (
        (hops - over_nodes) * kernels.send_to_device(values / layout.tensor)
        + over_nodes * kernels.send_to_node(values)
        + hops * kernels.all_gather(layout.tensor, values)
    )


def _touched(mixture: MixtureOfExperts, tokens: float) -> float:
    """Expected number of experts that `tokens` are routed to, all experts equally likely."""
    idle = math.pow(1 - mixture.per_token / mixture.count, tokens)
    return mixture.count * (1 - idle)


def _matrices_before_activation(architecture: Architecture) -> int:
    return 1 if "plain_mlp" in architecture.parts else 2
