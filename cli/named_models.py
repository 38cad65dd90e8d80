"""Models by the names that people use on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cli.errors import WRONG_INPUT, CliError
from slipway.architectures.names import find_published, how_to_name
from slipway.architectures.read import is_model_folder, read_architecture
from slipway.config.catalog import Architecture
from slipway.config.errors import ConfigError
from slipway.planner.architecture import stated_bytes_problem


def find_model(name: str, known: Mapping[str, Architecture]) -> tuple[str, Architecture]:
    """The model's name and architecture: by its catalog key or its name on the hub, in any case, or
    from a config.json or a folder that has one. Raises CliError.
    """
    wanted, path = name.lower(), Path(name)
    if wanted in known:
        return wanted, known[wanted]
    if path.suffix == ".json" or is_model_folder(path):
        return name, read_model(path, name)
    published = find_published(name, known)
    if published is not None:
        return published
    message, fix = _unknown(name, path, known)
    raise CliError(message, fix=fix, exit_code=WRONG_INPUT)


def read_model(path: Path, name: str) -> Architecture:
    """The architecture of a config.json or its folder, which messages call `name`. Raises
    CliError."""
    try:
        architecture = read_architecture(path, source=name)
        if problem := stated_bytes_problem(architecture):
            raise ConfigError([problem])
    except ConfigError as error:
        message = f"the model cannot be read\n{error}"  # which has the fix
        raise CliError(message, fix="", exit_code=WRONG_INPUT) from None
    return architecture


def _unknown(name: str, path: Path, known: Mapping[str, Architecture]) -> tuple[str, str]:
    """What is wrong with the name of a model, and the fix."""
    if not name.strip():
        return "the name is empty", "give a key of catalog/models.yaml, or a path of a config.json"
    if path.is_dir():
        return f"{name}: no config.json in this folder", "give the folder that has it"
    if name.startswith((".", "/", "~")):
        return f"{name}: there is no such file or folder", "correct the path"
    return f'catalog/models.yaml has no model "{name}"', how_to_name(name, known)
