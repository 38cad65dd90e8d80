"""Bytes of checkpoints, from headers and indexes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from slipway.config.hub.checkpoint import published_bytes
from slipway.config.hub.read import read_architecture
from tests.unit.config.hub.configs import LLAMA

SIZES = {"model.embed_tokens.weight": 1000, "model.layers.3.mlp.up_proj.weight": 24}
NOT_LOADED = {"model.layers.4.mlp.up_proj.weight": 70, "mtp.layers.0.mlp.up_proj.weight": 7}


def write_tensors(path: Path, sizes: dict[str, int]) -> None:
    """A header of the format, without the tensors after it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def write_index(folder: Path, names: dict[str, str], total: int) -> None:
    index = {"metadata": {"total_size": total}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_one_file_says_its_tensors(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", SIZES)
    assert published_bytes(tmp_path, layers=4) == 1024


def test_tensors_that_a_server_does_not_load_are_left_out(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", SIZES | NOT_LOADED)
    assert published_bytes(tmp_path, layers=4) == 1024


def test_all_files_of_an_index_are_read(tmp_path: Path) -> None:
    for number, (name, size) in enumerate(SIZES.items()):
        write_tensors(tmp_path / f"model-{number}.safetensors", {name: size})
    names = {name: f"model-{number}.safetensors" for number, name in enumerate(SIZES)}
    write_index(tmp_path, names, total=999)
    assert published_bytes(tmp_path, layers=4) == 1024


def test_without_the_weights_the_index_says_the_sum(tmp_path: Path) -> None:
    write_index(tmp_path, dict.fromkeys(SIZES, "model-0.safetensors"), total=1024)
    assert published_bytes(tmp_path, layers=4) == 1024


def test_a_sum_with_tensors_that_are_not_loaded_says_nothing(tmp_path: Path) -> None:
    write_index(tmp_path, dict.fromkeys(SIZES | NOT_LOADED, "model-0.safetensors"), total=1101)
    assert published_bytes(tmp_path, layers=4) is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 16, b"\x02\0\0\0\0\0\0\0[]"])
def test_a_file_in_another_format_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    assert published_bytes(tmp_path, layers=4) is None


def test_a_folder_is_read_with_the_bytes_of_its_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_architecture(tmp_path, source="here").published_bytes is None
    write_tensors(tmp_path / "model.safetensors", SIZES)
    assert read_architecture(tmp_path, source="here").published_bytes == 1024


def test_weights_that_are_stored_in_32_bits_are_loaded_in_fewer_bytes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"torch_dtype": "float32"}))
    write_tensors(tmp_path / "model.safetensors", SIZES)
    assert read_architecture(tmp_path, source="here").published_bytes is None


def test_the_older_file_of_modelopt_says_the_quantization(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    stated = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(stated))
    assert read_architecture(tmp_path / "config.json", source="here").published_weights == "nvfp4"
