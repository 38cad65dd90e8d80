"""The architectures that model files name and that have no key in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from slipway.config.catalog import Architecture
from slipway.config.errors import ConfigError, Problem, raise_if_any
from slipway.config.model import HubSource, Model, PathSource

from .names import find_published
from .read import is_model_folder, read_architecture

SUFFIX = ".json"


def named_architectures(
    root: Path, models: Iterable[Model], known: Mapping[str, Architecture]
) -> Mapping[str, Architecture]:
    """By the name that plans use: the path of a config.json as it is written, the path of a source,
    or the name on the hub of weights with facts of their own.

    Raises ConfigError with the problems of all files.
    """
    found: dict[str, Architecture] = {}
    problems: list[Problem] = []
    for model in models:
        try:
            found.update(_of_engine(root, model, known) or _of_source(model, known))
        except ConfigError as error:
            problems += error.problems
    raise_if_any(problems)
    return found


def _of_engine(
    root: Path, model: Model, known: Mapping[str, Architecture]
) -> dict[str, Architecture]:
    """The architecture of `engine.architecture`: a path relative to the model file, or a name on
    the hub."""
    named = model.settings.engine.architecture
    if named is None or named in known:
        return {}
    published = find_published(named, known)
    if published is not None:
        return dict([published])
    path = (root / model.origin.source).parent / named
    if not named.endswith(SUFFIX) and not path.is_dir():
        return {}
    if not path.exists():
        raise _wrong_path(model, "there is no such file beside this one")
    if path.is_dir() and not is_model_folder(path):
        raise _wrong_path(model, "no config.json in this folder")
    return {named: read_architecture(path, source=str(Path(model.origin.source).parent / named))}


def _wrong_path(model: Model, message: str) -> ConfigError:
    problem = model.origin.problem(
        ("engine", "architecture"),
        message,
        value=model.settings.engine.architecture,
        fix="correct the path, which is relative to the model file",
    )
    return ConfigError([problem])


def _of_source(
    model: Model, known: Mapping[str, Architecture]
) -> Iterator[tuple[str, Architecture]]:
    """The architecture of the weights: by their name on the hub, or from their folder if this
    machine has it."""
    source, named = model.settings.source, model.settings.engine.architecture
    if isinstance(source, HubSource):
        published = find_published(source.hf, known)
        if published is not None and published[0] not in known:
            yield source.hf, published[1]
    if isinstance(source, PathSource) and named is None and is_model_folder(Path(source.path)):
        yield source.path, read_architecture(Path(source.path), source=source.path)
