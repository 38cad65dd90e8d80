"""The architecture that a model file names, and the context it allows."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.architectures.names import find_published, how_to_name
from slipway.config.catalog import Architecture
from slipway.config.errors import Problem
from slipway.config.model import Model, ModelSettings, PackageSource, PathSource
from slipway.planner.quantization import scheme_of, weight_bytes

Named = tuple[str, Architecture]


# Counted weights were within 10 % of those that servers loaded (docs/benchmarks/memory.md). Another
# sum is that of an altered file or of another model; the number leaves room for tied tables that
# are stored twice.
MOST_DIFFERENCE = 0.25


def find_architecture(model: Model, known: Mapping[str, Architecture]) -> Named | Problem:
    """(the architecture's name in plans, the architecture), or the problem with its stated
    weights."""
    found = _named(model, known)
    if isinstance(found, Problem):
        return found
    return stated_bytes_problem(found[1]) or found


def stated_bytes_problem(architecture: Architecture) -> Problem | None:
    """Refuses a checkpoint whose stated bytes differ too much from its counted weights."""
    stated = architecture.published_bytes
    if stated is None:
        return None
    counted = weight_bytes(architecture, scheme_of(architecture, architecture.published_weights))
    if abs(stated.size_bytes - counted) <= MOST_DIFFERENCE * counted:
        return None
    return Problem(
        source=stated.file,
        key=stated.key,
        message=f"must be within {MOST_DIFFERENCE:.0%} of {counted}, the bytes of"
        f" {architecture.published_weights} weights counted from {architecture.source}",
        value=stated.size_bytes,
        fix="download the folder again, or give a copy of its config.json alone",
    )


def _named(model: Model, known: Mapping[str, Architecture]) -> Named | Problem:
    """The architecture that the engine names (a key of `known`, or a name on the hub), else the
    source's."""
    settings = model.settings
    named, published = settings.engine.architecture, _published_name(settings)
    if published in known:  # with facts of its own: `slipway.architectures.model_files`
        return str(published), known[str(published)]
    if named is not None:
        if named in known:
            return named, known[named]
        return find_published(named, known) or model.origin.problem(
            ("engine", "architecture"),
            "is not in catalog/models.yaml",
            value=named,
            fix=how_to_name(named, known),
        )
    found = find_published(published, known) if published else None
    return found or model.origin.problem(
        ("engine", "architecture"),
        "is required: catalog/models.yaml does not know this source",
        fix="give a key of catalog/models.yaml, or the path of the model's config.json",
        value=published,
    )


def _published_name(settings: ModelSettings) -> str | None:
    source = settings.source
    if isinstance(source, PackageSource):
        return source.package.partition("==")[0]
    if isinstance(source, PathSource):
        return source.path
    return getattr(source, "hf", None)


def context_problems(model: Model, architecture: Architecture) -> list[Problem]:
    """Refuses sequences longer than the model's training context."""
    length = model.settings.engine.max_model_len
    if length is None or length <= architecture.context:
        return []
    return [
        model.origin.problem(
            ("engine", "max_model_len"),
            f"is more than the {architecture.context} tokens the model was trained for",
            value=length,
            fix=f"use {architecture.context} or less",
        )
    ]
