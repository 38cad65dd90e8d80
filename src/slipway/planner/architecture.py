"""The architecture that a model file names, and the context it allows."""

from __future__ import annotations

from collections.abc import Mapping

from slipway.config.catalog import HOW_TO_ADD_A_MODEL, Architecture
from slipway.config.errors import Problem, suggestion
from slipway.config.hub.names import find_published
from slipway.config.model import Model, ModelSettings, PackageSource, PathSource

Named = tuple[str, Architecture]


def find_architecture(model: Model, known: Mapping[str, Architecture]) -> Named | Problem:
    """What plans call the architecture, and itself: the one that the engine names, by its key in
    `known` or by a name on the hub, else that of the source."""
    settings = model.settings
    named, published = settings.engine.architecture, _published_name(settings)
    if published in known:  # with facts of its own: `slipway.config.hub.model_files`
        return str(published), known[str(published)]
    if named is not None:
        if named in known:
            return named, known[named]
        return find_published(named, known) or model.origin.problem(
            ("engine", "architecture"),
            "is not in catalog/models.yaml",
            value=named,
            fix=f"{suggestion(named, known)}; or {HOW_TO_ADD_A_MODEL}",
        )
    found = find_published(published, known) if published else None
    return found or model.origin.problem(
        ("engine", "architecture"),
        "is required: catalog/models.yaml does not know this source",
        fix=f"name the architecture, or the path of its config.json; or {HOW_TO_ADD_A_MODEL}",
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
