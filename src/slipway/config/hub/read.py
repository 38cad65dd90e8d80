"""Reads an architecture from a model's folder, or from a config.json alone."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.config.catalog import Architecture
from slipway.config.errors import ConfigError, Problem

from .architecture import architecture_of
from .checkpoint import published_bytes

CONFIG = "config.json"
# ModelOpt's older checkpoints say their quantization here.
MODELOPT = "hf_quant_config.json"


def is_model_folder(path: Path) -> bool:
    return (path / CONFIG).is_file()


def read_architecture(path: Path, *, source: str) -> Architecture:
    """The architecture of a config.json, or of a folder that has one, and the bytes of the weights
    beside it. `source` is what messages call it. Raises ConfigError."""
    file = path / CONFIG if path.is_dir() else path
    config = _values(file, source)
    modelopt = file.with_name(MODELOPT)
    if "quantization_config" not in config and modelopt.is_file():
        stated = _values(modelopt, f"{Path(source).parent / MODELOPT}")
        config = {**config, "quantization_config": stated.get("quantization", stated)}
    changed = datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC).date()
    architecture = architecture_of(config, source=source, date=changed)
    if _stored_wider(config):
        return architecture
    stored = published_bytes(file.parent, architecture.layers)
    return architecture.model_copy(update={"published_bytes": stored})


def _stored_wider(config: Mapping[str, Any]) -> bool:
    """Weights in 32 bits are loaded in 16."""
    dtypes = (config.get("dtype"), config.get("torch_dtype"))
    return "float32" in dtypes


def _values(file: Path, source: str) -> Mapping[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _broken(source, f"cannot be read: {error.strerror}", "check the path") from None
    except ValueError as error:
        raise _broken(source, f"is not JSON: {error}", "download the file again") from None
    if not isinstance(values, dict):
        raise _broken(source, "must be a mapping of keys to values", "download the file again")
    return values


def _broken(source: str, message: str, fix: str) -> ConfigError:
    return ConfigError([Problem(source=source, key="", message=message, fix=fix)])
