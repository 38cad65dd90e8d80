"""Reads an architecture from a model's folder, or from a config.json alone."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.config.catalog import Architecture

from .architecture import architecture_of
from .checkpoint import published_bytes
from .json_file import read_json
from .quantized import KEY

CONFIG = "config.json"
# ModelOpt's older checkpoints say their quantization here.
MODELOPT = "hf_quant_config.json"


def is_model_folder(path: Path) -> bool:
    return (path / CONFIG).is_file()


def read_architecture(path: Path, *, source: str) -> Architecture:
    """The architecture of a config.json, or of a folder that has one, and the bytes of the weights
    beside it. `source` is what messages call `path`. Raises ConfigError."""
    file, called = (path / CONFIG, Path(source) / CONFIG) if path.is_dir() else (path, Path(source))
    config = read_json(file, str(called)).values
    modelopt = file.with_name(MODELOPT)
    if KEY not in config and modelopt.is_file():
        stated = read_json(modelopt, str(called.with_name(MODELOPT))).values
        config = {**config, KEY: stated.get("quantization", stated)}
    changed = datetime.datetime.fromtimestamp(file.stat().st_mtime, datetime.UTC).date()
    architecture = architecture_of(config, source=str(called), date=changed)
    if _stored_wider(config):
        return architecture
    stored = published_bytes(file.parent, architecture.layers, source=str(called.parent))
    return Architecture.model_validate({**dict(architecture), "published_bytes": stored})


def _stored_wider(config: Mapping[str, Any]) -> bool:
    """Weights in 32 bits are loaded in 16."""
    dtypes = (config.get("dtype"), config.get("torch_dtype"))
    return "float32" in dtypes
