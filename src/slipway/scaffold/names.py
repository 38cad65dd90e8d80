"""Names of models as files and clients have them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slipway.architectures.names import find_published
from slipway.config.catalog import Architecture
from slipway.config.model import HubSource, Model, PackageSource

LONGEST = 40  # characters of a name (slipway.config.base.ResourceName)


def file_name(name: str) -> str:
    """ "Qwen/Qwen2.5-7B-Instruct" -> "qwen2-5-7b-instruct" """
    last = name.rstrip("/").rpartition("/")[2].lower()
    words = re.sub("[^a-z0-9]+", "-", last).strip("-")
    return (words if words[:1].isalpha() else f"model-{words}")[:LONGEST].strip("-")


def architecture_key(model: Model, known: Mapping[str, Architecture]) -> str | None:
    """The name in plans of what a model file serves, by its engine or else by its source; None
    where the catalog does not have it."""
    source, named = model.settings.source, model.settings.engine.architecture
    if named is None and isinstance(source, PackageSource):
        named = source.package.partition("==")[0]
    if named is None and isinstance(source, HubSource):
        named = source.hf
    if named is None or named in known:
        return named
    found = find_published(named, known)
    return None if found is None else found[0]


def same_weights(
    key: str, library: Mapping[str, Model], known: Mapping[str, Architecture]
) -> Model | None:
    """The first model file that says where weights of this architecture are."""
    files = (library[name] for name in sorted(library))
    having = (each for each in files if each.settings.source is not None)
    return next((each for each in having if architecture_key(each, known) == key), None)
