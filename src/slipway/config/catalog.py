"""The catalog: dated facts about accelerators, instances and models, read from catalog/*.yaml."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from .base import PositiveInt, Settings
from .document import read_document
from .errors import ConfigError, Problem
from .validation import validated

Entry = TypeVar("Entry", bound=Settings)

# measured: on the hardware or from the vendor's API; documented: a page of the vendor or the
# model's own config; unverified: commonly quoted, not checked here.
Confidence = Literal["measured", "documented", "unverified"]
Positive = Annotated[float, Field(gt=0, strict=False)]


class Sourced(Settings):
    """Every entry says where it comes from and when that was true."""

    source: Annotated[str, Field(min_length=1)]
    date: datetime.date
    confidence: Confidence


class Accelerator(Sourced):
    """One device. Dense arithmetic, no sparsity; `link_gb_per_s` is total, both directions."""

    vendor: str
    memory_mib: PositiveInt
    bandwidth_gb_per_s: Positive
    bf16_tflops: Positive
    fp8_tflops: Positive | None = None
    link: str
    link_gb_per_s: Positive | None = None


class Instance(Sourced):
    """A machine of a cloud. `usd_per_hour` is on demand in us-east-1, absent when unknown."""

    cloud: str
    vcpus: PositiveInt
    memory_gib: PositiveInt
    accelerator: str
    accelerators: PositiveInt
    network_gbps: Positive
    efa_interfaces: Annotated[int, Field(ge=0)]
    network_cards: PositiveInt
    nvme_gb: Annotated[int, Field(ge=0)]
    usd_per_hour: Positive | None = None
    price_source: str | None = None
    price_confidence: Confidence | None = None


class SlidingWindow(Settings):
    """`layers` of the model keep only the last `tokens` tokens."""

    layers: PositiveInt
    tokens: PositiveInt


class LatentAttention(Settings):
    """MLA: one compressed vector and one rotary key per token and layer, shared by all heads."""

    kv_lora_rank: PositiveInt
    rope_dimensions: PositiveInt


class Architecture(Sourced):
    """What decides a model's memory. `packages` and `hub` are where its weights are found."""

    parameters: PositiveInt
    active_parameters: PositiveInt | None = None  # per token, of a mixture of experts
    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    context: PositiveInt
    intermediate: PositiveInt | None = None
    vocabulary: PositiveInt | None = None
    tied_embeddings: bool | None = None
    sliding_window: SlidingWindow | None = None
    latent: LatentAttention | None = None
    license: str | None = None
    packages: Annotated[tuple[str, ...], Field(strict=False)] = ()
    hub: Annotated[tuple[str, ...], Field(strict=False)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    accelerators: Mapping[str, Accelerator]
    instances: Mapping[str, Instance]
    models: Mapping[str, Architecture]


def load_catalog(root: Path) -> Catalog:
    """Read <root>/catalog. Raises ConfigError when a file is missing or says something odd."""
    catalog = Catalog(
        accelerators=_entries(root, "accelerators", Accelerator),
        instances=_entries(root, "instances", Instance),
        models=_entries(root, "models", Architecture),
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
        if instance.accelerator not in catalog.accelerators
    ]
    if unknown:
        raise ConfigError(unknown)
    return catalog


def _entries(root: Path, name: str, kind: type[Entry]) -> Mapping[str, Entry]:
    source = f"catalog/{name}.yaml"
    document = read_document(root / source, source=source)
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for key, values in document.values.items():
        origin = document.origin.under((key,), namespace=f"{key}.", rename={})
        try:
            entries[key] = validated(kind, values, origin)
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return entries
