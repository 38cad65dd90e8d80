"""The bytes of a checkpoint's tensors, from its own files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8  # of the header, little-endian (safetensors' README, "Format")
_MOST_HEADER_BYTES = 100_000_000  # safetensors' own limit
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def published_bytes(folder: Path, layers: int) -> int | None:
    """Bytes of the tensors that a server loads; None where the files do not say.

    The headers of the folder's .safetensors say each tensor's size; where weights are not here, the
    index says the sum, unless it has tensors that are not loaded. Those are of layers after the
    last, and in `mtp`: layers for predicting several tokens, used by speculative decoding only.
    """
    index = _json(folder / INDEX)
    names = index.get("weight_map", {}) if index else {}
    files = {folder / name for name in names.values()} if index else _alone(folder)
    if files and all(file.is_file() for file in files):
        tensors = [item for file in files for item in _header(file).items()]
        return sum(size for name, size in tensors if _is_loaded(name, layers)) or None
    total = index.get("metadata", {}).get("total_size") if index else None
    is_whole = bool(names) and all(_is_loaded(name, layers) for name in names)
    return total if isinstance(total, int) and is_whole else None


def _alone(folder: Path) -> set[Path]:
    """A checkpoint in one file, which has no index."""
    return set(folder.glob("model.safetensors"))


def _header(file: Path) -> Mapping[str, int]:
    """Bytes of each tensor; empty where the file is not in this format."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
        text = opened.read(length) if length <= _MOST_HEADER_BYTES else b""
    header = _mapping(text)
    header.pop("__metadata__", None)
    return {name: _size(tensor.get("data_offsets", (0, 0))) for name, tensor in header.items()}


def _size(offsets: Iterable[int]) -> int:
    start, end = offsets
    return end - start


def _is_loaded(name: str, layers: int) -> bool:
    if name.startswith("mtp."):
        return False
    layer = _LAYER.search(name)
    return layer is None or int(layer[1]) < layers or "vision" in name or "visual" in name


def _json(file: Path) -> dict[str, Any]:
    return _mapping(file.read_bytes()) if file.is_file() else {}


def _mapping(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
