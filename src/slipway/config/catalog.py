"""The catalog: dated facts about accelerators, instances, models, fabrics and what else a cloud
charges for, read from catalog/*.yaml."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from .base import MOST_DEVICES, Count, PositiveFloat, PositiveInt, Settings, UsdPerHour
from .document import parse_document, read_text
from .errors import ConfigError, Problem
from .validation import validated

Entry = TypeVar("Entry", bound=Settings)

# measured: on the hardware or from the vendor's API; documented: on a page of the vendor or in the
# model's own config; unverified: commonly quoted, not checked here.
Confidence = Literal["measured", "documented", "unverified"]
WholeNumber = Annotated[int, Field(ge=0, le=1_000_000)]
Parameters = Annotated[int, Field(ge=1, le=10**15)]


class Sourced(Settings):
    """Every entry states its source and the date it was checked."""

    source: Annotated[str, Field(min_length=1)]
    date: datetime.date
    confidence: Confidence


class Accelerator(Sourced):
    """One device. Dense arithmetic, no sparsity; `link_gb_per_s` is total, both directions.

    `offered_mib` is what programs are offered of the memory, without what the driver keeps, and
    `offered_source` where it was printed. `compute_capability` is NVIDIA's name for what a device
    can do, absent on those of others. `sustained_bf16_tflops` is what large matrix products reach,
    which is less than the peak where the power limit lowers the clock, and `sustained_source` where
    it was measured. `validated` names the measurements that estimates of latency were compared
    with.
    """

    vendor: str
    reported_as: Annotated[tuple[str, ...], Field(strict=False)] = ()  # what its driver calls it
    memory_mib: PositiveInt
    offered_mib: PositiveInt | None = None
    offered_source: str | None = None
    bandwidth_gb_per_s: PositiveFloat
    bf16_tflops: PositiveFloat
    fp8_tflops: PositiveFloat | None = None
    compute_capability: PositiveFloat | None = None
    devices_per_node: Count | None = None  # of its servers, where no instance has it
    sustained_bf16_tflops: PositiveFloat | None = None
    sustained_source: str | None = None
    validated: str | None = None
    link: str
    link_gb_per_s: PositiveFloat | None = None

    @property
    def device_mib(self) -> int:
        """The memory that engines see."""
        return self.offered_mib or self.memory_mib


class Instance(Sourced):
    """A machine of a cloud. `usd_per_hour` is on demand in us-east-1, absent when unknown.

    `network_sustained_gbps` is set where `network_gbps` is a burst ("up to"). Of an instance with
    EFA, `interfaces_per_card` is how many interfaces the smallest of its network cards can have.
    """

    cloud: str
    vcpus: PositiveInt
    memory_gib: PositiveInt
    accelerator: str | None = None  # catalog key; absent on instances with processors only
    accelerators: Annotated[int, Field(ge=0, le=MOST_DEVICES)] = 0
    network_gbps: PositiveFloat
    network_sustained_gbps: PositiveFloat | None = None
    efa_interfaces: WholeNumber
    network_cards: Count
    interfaces_per_card: Count | None = None
    efa_on_first_card: bool = True
    nvme_gb: WholeNumber
    usd_per_hour: UsdPerHour | None = None
    price_source: str | None = None
    price_confidence: Confidence | None = None
    price_date: datetime.date | None = None  # if only the month is known, its first day

    @property
    def priced_on(self) -> datetime.date:
        """The date of the price, else the date of the entry."""
        return self.price_date or self.date


class Service(Sourced):
    """What a cloud charges for by the hour beside machines. `usd_per_hour` is the list price in
    us-east-1, without traffic."""

    cloud: str
    usd_per_hour: UsdPerHour


class VariableList(Sourced):
    """The environment variables that the publisher of a library lists."""

    names: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class Fabric(Sourced):
    """The link between two hosts of a pool, by the fabric's kind. `latency_us` is what one message
    waits, one way, whatever it sends."""

    latency_us: PositiveFloat


class Limit(Sourced):
    """A threshold of the check of a fabric before work."""

    value: PositiveFloat


class FabricLimits(Settings):
    """What a link between two hosts must reach, by the fabric's kind: shares of the line rate and
    of the other rails' median, and microseconds."""

    bandwidth_share: Limit
    rail_share: Limit
    latency_us: Limit
    jitter_us: Limit


class SlidingWindow(Settings):
    """`layers` of the model keep only the last `tokens` tokens."""

    layers: Count
    tokens: PositiveInt


class LatentAttention(Settings):
    """MLA: one compressed vector and one rotary key per token and layer, shared by all heads.

    A head's queries and keys have `nope_dimensions` without and `rope_dimensions` with rotation;
    its values have `value_dimensions`. `q_lora_rank` is set where queries are compressed too.
    """

    kv_lora_rank: PositiveInt
    rope_dimensions: PositiveInt
    q_lora_rank: PositiveInt | None = None
    nope_dimensions: PositiveInt = 128
    value_dimensions: PositiveInt = 128


class LinearAttention(Settings):
    """Gated DeltaNet (arXiv 2412.06464): `layers` of the model keep a state instead of a KV cache.

    The other layers, which have attention, are spread evenly, the last layer among them. A
    sequence's state is a matrix of `key_dimensions` by `value_dimensions` for every value head,
    `state_bytes` a value, and the last tokens of a `convolution` over queries, keys and values.
    `gate_rank` is set where the gates are per dimension and of low rank: Kimi Delta Attention
    (arXiv 2510.26692).
    """

    layers: Count
    key_heads: PositiveInt
    value_heads: PositiveInt
    key_dimensions: PositiveInt
    value_dimensions: PositiveInt
    convolution: PositiveInt = 4  # tokens
    state_bytes: Literal[2, 4] = 2
    gate_rank: PositiveInt | None = None


def attending_layers(layers: int, attending: int) -> frozenset[int]:
    """The layers with attention where it is linear in the others: spread evenly, the last one among
    them."""
    return frozenset(-(-layers * (index + 1) // attending) - 1 for index in range(attending))


class MixtureOfExperts(Settings):
    """A router sends each token to `per_token` of these MLPs; `shared` ones process every token.

    The first `leading_dense_layers` layers have a plain MLP of the architecture's `intermediate`;
    of the others, the last of each `every` has experts.
    """

    count: PositiveInt
    per_token: PositiveInt
    intermediate: PositiveInt  # of one expert
    shared: WholeNumber = 0
    leading_dense_layers: WholeNumber = 0
    every: PositiveInt = 1


# The matrices of a layer that quantization may pack.
MatrixName = Literal[
    "query",
    "key and value",
    "attention output",
    "query down",  # of latent attention, as are the next three
    "query up",
    "key and value down",
    "key and value up",
    "linear attention",
    "linear attention output",
    "MLP",
    "experts",
    "shared experts",
]


class Unquantized(Settings):
    """`matrices` that a quantized checkpoint keeps in 16 bits, in these `layers` or in all."""

    matrices: Annotated[tuple[MatrixName, ...], Field(strict=False)]
    layers: Annotated[tuple[WholeNumber, ...] | None, Field(strict=False)] = None


class Checkpoint(Settings):
    """Weights of an architecture that were published under names of their own.

    `group` is how many weights share a scale, where it is not the scheme's usual number.
    `intermediate` is that of the MLPs where they are padded so that more devices can share their
    groups.
    """

    hub: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    weights: str
    group: PositiveInt | None = None
    intermediate: PositiveInt | None = None
    unquantized: Annotated[tuple[Unquantized, ...], Field(strict=False)] = ()
    source: Annotated[str, Field(min_length=1)]


# What a model can have besides RMSNorm, projections without bias and a gated MLP.
LayerPart = Literal[
    "qkv_bias",
    "output_bias",
    "qk_norm",  # a norm on each head's queries and keys
    "post_norms",  # a norm after attention and MLP too
    "attention_sinks",  # a learned logit per head
    "attention_gate",  # of each value of attention, from a projection as wide as the queries
    "router_bias",
    "expert_bias",
    "shared_expert_gate",
    "plain_mlp",  # two matrices: no gate
    "mlp_bias",
    "parallel_mlp",  # beside attention, with one norm before both
    "norm_bias",  # LayerNorm
    "logits_bias",
]


class StatedBytes(Settings):
    """Bytes of all tensors of a checkpoint that a server loads, and which key of its files says
    so."""

    size_bytes: Parameters
    file: str
    key: str


class Architecture(Sourced):
    """The facts that determine a model's memory and arithmetic, with shortened names from
    config.json.

    `is_read` is set where the facts were read from a config.json, which `source` names: `date` is
    then that of the file. `parameters` is the published number, absent where nobody published it;
    `slipway.architectures.parameters` counts from the rest. `published_bytes` is set where
    the checkpoint's own files say them.
    `published_weights` is the scheme (slipway.planner.quantization) of its published
    weights, with `quantization_group` and `unquantized` as a Checkpoint has them. `packages` and
    `hub` list where they are published, `checkpoints` what else is.
    """

    is_read: bool = False
    parameters: Parameters | None = None
    active_parameters: Parameters | None = None  # parameters per token in a mixture of experts
    layers: Count
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    intermediate: PositiveInt
    vocabulary: PositiveInt
    tied_embeddings: bool = False
    context: PositiveInt
    learned_positions: PositiveInt | None = None
    parts: Annotated[tuple[LayerPart, ...], Field(strict=False)] = ()
    sliding_window: SlidingWindow | None = None
    latent: LatentAttention | None = None
    linear_attention: LinearAttention | None = None
    experts: MixtureOfExperts | None = None
    vision_parameters: Parameters | None = None  # tower and projector
    published_weights: str = "bf16"
    published_bytes: StatedBytes | None = None
    quantization_group: PositiveInt | None = None
    unquantized: Annotated[tuple[Unquantized, ...], Field(strict=False)] = ()
    checkpoints: Annotated[tuple[Checkpoint, ...], Field(strict=False)] = ()
    license: str | None = None
    packages: Annotated[tuple[str, ...], Field(strict=False)] = ()
    hub: Annotated[tuple[str, ...], Field(strict=False)] = ()


HOW_TO_ADD_A_MODEL = """add its facts from config.json to catalog/models.yaml, e.g.
        my-model-8b:
          parameters: 8030000000       # as published
          layers: 32                   # num_hidden_layers
          hidden: 4096                 # hidden_size
          heads: 32                    # num_attention_heads
          kv_heads: 8                  # num_key_value_heads
          head_dim: 128                # head_dim, or hidden / heads
          intermediate: 14336          # intermediate_size
          vocabulary: 128256           # vocab_size
          tied_embeddings: false       # tie_word_embeddings
          context: 131072              # max_position_embeddings
          hub: [my-org/My-Model-8B]
          source: config.json of my-org/My-Model-8B
          date: 2026-11-21
          confidence: documented
        (also, where it has them: parts, sliding_window, latent, experts)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    accelerators: Mapping[str, Accelerator]
    instances: Mapping[str, Instance]
    models: Mapping[str, Architecture]
    services: Mapping[str, Service]
    fabric_variables: Mapping[str, VariableList]
    fabrics: Mapping[str, Fabric]  # every kind of a pool's fabric
    fabric_limits: Mapping[str, FabricLimits]  # as well


FABRICS = ("infiniband", "roce", "efa", "tcp")  # of slipway.plan.fabric
NAMES = (
    "accelerators", "instances", "models", "services", "fabrics", "fabric_variables",
    "fabric_thresholds",
)  # fmt: skip


def load_catalog(root: Path) -> Catalog:
    """Read <root>/catalog. Raises ConfigError when a file is missing or invalid."""
    sources = (_source(name) for name in NAMES)
    return _catalog(tuple(read_text(root / source, source=source) for source in sources))


@lru_cache(maxsize=4)  # parsing takes four fifths of the time of reading an environment
def _catalog(texts: tuple[str, ...]) -> Catalog:
    """`texts` are the files of NAMES."""
    text = dict(zip(NAMES, texts, strict=True))
    catalog = Catalog(
        accelerators=_entries(text["accelerators"], "accelerators", Accelerator),
        instances=_entries(text["instances"], "instances", Instance),
        models=_entries(text["models"], "models", Architecture),
        services=_entries(text["services"], "services", Service),
        fabrics=_entries(text["fabrics"], "fabrics", Fabric),
        fabric_variables=_entries(text["fabric_variables"], "fabric_variables", VariableList),
        fabric_limits=_entries(
            text["fabric_thresholds"], "fabric_thresholds", FabricLimits, "links"
        ),
    )
    unknown = [
        Problem(
            source="catalog/instances.yaml",
            key=f"{key}.accelerator",
            message="is not in catalog/accelerators.yaml",
            value=instance.accelerator,
            fix="add the accelerator, with its source and date",
        )
        for key, instance in catalog.instances.items()
        if instance.accelerator not in {None, *catalog.accelerators}
    ]
    unknown += [
        Problem(
            source=source,
            key=kind,
            message="has no entry, and pools may have such a fabric",
            fix="add the fabric's link, with its source and date",
        )
        for kind in FABRICS
        for source, entries in (
            ("catalog/fabrics.yaml", catalog.fabrics),
            ("catalog/fabric_thresholds.yaml", catalog.fabric_limits),
        )
        if kind not in entries
    ]
    if unknown:
        raise ConfigError(unknown)
    return catalog


def _source(name: str) -> str:
    return f"catalog/{name}.yaml"


def _entries(text: str, name: str, kind: type[Entry], *part: str) -> Mapping[str, Entry]:
    """Those of a file, or of the `part` of it below a key."""
    document = parse_document(text, source=_source(name))
    values_of = document.values
    for key in part:
        values_of = values_of.get(key, {})
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for key, values in values_of.items():
        path = (*part, key)
        origin = document.origin.under(path, namespace=f"{'.'.join(path)}.", rename={})
        try:
            entries[key] = validated(kind, values, origin)
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return entries
