"""Where the weights of a model are, for the name, folder or config.json that a person gives."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cli.errors import WRONG_INPUT, CliError
from cli.hub import CONFIG, HubUnreachableError, Published, mirror, published
from cli.named_models import find_model, read_model
from cli.scaffold.options import expanded
from slipway.architectures.names import how_to_name
from slipway.architectures.read import is_model_folder
from slipway.config.catalog import Architecture
from slipway.config.errors import suggestion_or
from slipway.config.model import Model
from slipway.scaffold.names import architecture_key, file_name, same_weights
from slipway.scaffold.request import Weights

FIRST_REVISION = "1"  # of a folder: raised when its content changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person says of the weights. `revision` is a commit of the hub, or a name for the
    content of a folder or bucket."""

    model: str
    name: str | None = None
    revision: str | None = None
    s3: str | None = None
    credentials: str | None = None
    simulated: bool = False
    license: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`files` are to be written beside the model file, by name."""

    name: str
    called: str
    weights: Weights
    files: Mapping[str, str]


def find_weights(
    asked: Asked, library: Mapping[str, Model], known: Mapping[str, Architecture]
) -> Found:
    """`library` are the model files of the checkout, `known` is the catalog. Raises CliError."""
    path = expanded(asked.model)
    if is_model_folder(path) or (path.suffix == ".json" and path.is_file()):
        return _of_folder(asked, path)
    if asked.model in library and asked.model not in known:
        served = architecture_key(library[asked.model], known)
        if served is not None:
            name = asked.name or asked.model
            return find_weights(replace(asked, model=served, name=name), library, known)
    is_published = "/" in asked.model and not asked.model.startswith((".", "/", "~"))
    try:
        key, architecture = find_model(asked.model, known)
    except CliError as error:
        if is_published:
            return _of_hub(asked, known)
        if asked.model.startswith((".", "/", "~")) or path.is_dir():
            raise
        fix = suggestion_or(asked.model, known, "give its name on the hub, or a folder")
        raise CliError(error.message, fix=fix, exit_code=WRONG_INPUT) from None
    name = asked.name or file_name(key)
    weights = Weights(
        source=_source(asked, key, architecture),
        stated=key if asked.simulated or asked.s3 else None,
        known_as=key,
        architecture=architecture,
    )
    shared = same_weights(key, library, known)
    if shared is not None and not (asked.simulated or asked.s3 or asked.revision):
        weights = _shared(weights, shared)
    elif weights.source is not None and weights.source.get("revision") == "":
        commit = published(str(weights.source["hf"])).commit
        weights = replace(weights, source={**weights.source, "revision": commit})
    return Found(name=name, called=_called(key, architecture), weights=weights, files={})


def _source(asked: Asked, key: str, architecture: Architecture) -> dict[str, Any] | None:
    """The revision is "" where the hub has to be asked for it."""
    if asked.simulated:
        return None
    if asked.s3:
        return _in_bucket(asked)
    hub_name = architecture.hub[0] if architecture.hub else key
    return _on_hub(hub_name, asked.revision or "", asked)


def _on_hub(name: str, revision: str, asked: Asked) -> dict[str, Any]:
    source = {"hf": name, "revision": revision}
    address = mirror()
    return _with_credentials({**source, "endpoint": address} if address else source, asked)


def _in_bucket(asked: Asked) -> dict[str, Any]:
    if not asked.revision:
        raise CliError(
            "--s3 needs --revision: your name for the content of the folder",
            fix='add e.g. --revision "2026-11"; a new content gets a new one',
            exit_code=WRONG_INPUT,
        )
    return _with_credentials({"s3": asked.s3, "revision": asked.revision}, asked)


def _with_credentials(source: dict[str, Any], asked: Asked) -> dict[str, Any]:
    return {**source, "credentials": asked.credentials} if asked.credentials else source


def _shared(weights: Weights, file: Model) -> Weights:
    """The source that another model file has for the same weights."""
    source = file.settings.source
    assert source is not None, "it was chosen for its source"  # noqa: S101
    values = source.model_dump(mode="json", exclude_unset=True)
    return replace(weights, source=values, stated=file.settings.engine.architecture)


def _of_folder(asked: Asked, path: Path) -> Found:
    folder = path if path.is_dir() else path.parent
    architecture = read_model(path, asked.model)
    config = path / CONFIG if path.is_dir() else path
    place = folder.resolve()
    name = asked.name or file_name(place.name)
    source: dict[str, Any] | None = {
        "path": str(place),
        "revision": asked.revision or FIRST_REVISION,
    }
    if asked.simulated:
        source = None
    elif asked.s3:
        source = _in_bucket(asked)
    if source and "path" in source and config.name == CONFIG:
        weights = Weights(
            source=source, stated=None, known_as=str(place), architecture=architecture
        )
        return Found(name=name, called=str(place), weights=weights, files={})
    return _with_config(name, str(place), source, architecture, config.read_text(encoding="utf-8"))


def _of_hub(asked: Asked, known: Mapping[str, Architecture]) -> Found:
    """A model that the catalog does not list."""
    try:
        found = published(asked.model)
    except HubUnreachableError as error:
        raise CliError(
            f"catalog/models.yaml has no model {asked.model}, and {error.message}",
            fix=how_to_name(asked.model, known),
            exit_code=WRONG_INPUT,
        ) from None
    architecture = _architecture(found, asked.model)
    source: dict[str, Any] | None = _on_hub(asked.model, asked.revision or found.commit, asked)
    if asked.simulated:
        source = None
    elif asked.s3:
        source = _in_bucket(asked)
    name = asked.name or file_name(asked.model)
    return _with_config(name, asked.model, source, architecture, found.config)


def _architecture(found: Published, name: str) -> Architecture:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / CONFIG
        path.write_text(found.config, encoding="utf-8")
        return read_model(path, f"{name}/{CONFIG}")


def _with_config(
    name: str, called: str, source: dict[str, Any] | None, architecture: Architecture, config: str
) -> Found:
    """With a copy of its config.json, from which it is planned."""
    file = f"{name}.{CONFIG}"
    weights = Weights(source=source, stated=file, known_as=file, architecture=architecture)
    return Found(name=name, called=called, weights=weights, files={file: config})


def _called(key: str, architecture: Architecture) -> str:
    return architecture.hub[0] if architecture.hub else key
