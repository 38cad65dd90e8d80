"""The architecture that a model file names, and the context it allows."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.catalog import HOW_TO_ADD_A_MODEL, Architecture
from slipway.config.errors import Problem, suggestion
from slipway.config.model import Model, ModelSettings, PackageSource


def find_architecture(model: Model, known: Mapping[str, Architecture]) -> Architecture | Problem:
    """The catalog entry the engine names, else the one that lists its source."""
    settings = model.settings
    named = settings.engine.architecture
    if named is not None:
        if named in known:
            return known[named]
        return model.origin.problem(
            ("engine", "architecture"),
            "is not in catalog/models.yaml",
            value=named,
            fix=f"{suggestion(named, known)}; or {HOW_TO_ADD_A_MODEL}",
        )
    published = _published_name(settings)
    for architecture in known.values():
        if published and published in (*architecture.packages, *architecture.hub):
            return architecture
    return model.origin.problem(
        ("engine", "architecture"),
        "is required: catalog/models.yaml does not know this source",
        fix=f"name the architecture; or {HOW_TO_ADD_A_MODEL}",
        value=published,
    )


def _published_name(settings: ModelSettings) -> str | None:
    source = settings.source
    if isinstance(source, PackageSource):
        return source.package.partition("==")[0]
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
