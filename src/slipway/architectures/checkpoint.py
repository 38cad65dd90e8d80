"""The bytes of a checkpoint's tensors, from its own files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slipway.config.catalog import StatedBytes
from slipway.config.validation import words

from .json_file import DOWNLOAD, parse_json, read_json, refused
from .keys import Keys

INDEX = "model.safetensors.index.json"
ALONE = "model.safetensors"  # a checkpoint in one file, which has no index
_LENGTH_BYTES = 8  # of the header, little-endian (safetensors' README, "Format")
_MOST_HEADER_BYTES = 100_000_000  # safetensors' own limit
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def published_bytes(folder: Path, layers: int, *, source: str) -> StatedBytes | None:
    """Bytes of the tensors that a server loads; None where the files do not say.

    The headers of the folder's .safetensors say each tensor's size; where weights are not here, the
    index says the sum, unless it has tensors that are not loaded. Those are of layers after the
    last, and in `mtp`: layers for predicting several tokens, used by speculative decoding only.
    `source` is what messages call the folder. Raises ConfigError for a broken file.
    """
    if not (folder / INDEX).is_file():
        files = [ALONE] if (folder / ALONE).is_file() else []
        return _of_headers(folder, files, layers, source)
    index = read_json(folder / INDEX, str(Path(source) / INDEX))
    places = index.below("weight_map")
    files = sorted({places.name(tensor) or "" for tensor in places.values})
    if files and all((folder / name).is_file() for name in files):
        return _of_headers(folder, files, layers, source)
    return _of_index(index, layers)


def _of_headers(folder: Path, files: list[str], layers: int, source: str) -> StatedBytes | None:
    total = 0
    for name in files:
        header = _header(folder / name, str(Path(source) / name))
        if header is None:
            return None
        total += sum(size for tensor, size in header.items() if _is_loaded(tensor, layers))
    if not total:
        return None
    file = files[0] if len(files) == 1 else "*.safetensors"
    return _stated(Keys(source=str(Path(source) / file), values={}), "data_offsets", total)


def _of_index(index: Keys, layers: int) -> StatedBytes | None:
    names, metadata = index.below("weight_map").values, index.below("metadata")
    total = metadata.get("total_size")
    if total is None or not names or not all(_is_loaded(name, layers) for name in names):
        return None
    return _stated(metadata, "total_size", total)


def _stated(keys: Keys, key: str, total: Any) -> StatedBytes:
    """Sums of tensors in parts of a byte are written as fractions, whole ones too."""
    whole = int(total) if isinstance(total, float) and total.is_integer() else total
    try:
        return StatedBytes(size_bytes=whole, file=keys.source, key=f"{keys.section}{key}")
    except ValidationError as error:
        message, _ = words(error.errors(include_url=False)[0], (key,), None)
        raise keys.refusal(key, message, value=total, fix=DOWNLOAD) from None


def _header(file: Path, source: str) -> Mapping[str, int] | None:
    """Bytes of each tensor; None where the file is not in this format, as one that Git LFS has not
    replaced yet."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(_LENGTH_BYTES), "little")
            text = opened.read(length) if length <= _MOST_HEADER_BYTES else None
    except OSError as error:
        raise refused(source, f"cannot be read: {error.strerror}", "check the path") from None
    if text is None:
        return None
    if not length or len(text) < length:
        raise refused(source, "ends within its header")
    header = parse_json(text, source)
    return {name: _size(header.below(name)) for name in header.values if name != "__metadata__"}


def _size(tensor: Keys) -> int:
    offsets = tensor.numbers("data_offsets")
    if len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1]:
        raise tensor.refusal(
            "data_offsets",
            "must be the start and the end of the tensor in bytes",
            value=tensor.get("data_offsets"),
            fix=DOWNLOAD,
        )
    return offsets[1] - offsets[0]


def _is_loaded(name: str, layers: int) -> bool:
    if name.startswith("mtp."):
        return False
    layer = _LAYER.search(name)
    return layer is None or int(layer[1]) < layers or "vision" in name or "visual" in name
