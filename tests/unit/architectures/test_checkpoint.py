"""Bytes of checkpoints, from headers and indexes."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.architectures.checkpoint import published_bytes
from slipway.architectures.read import read_architecture
from slipway.config.errors import ConfigError
from tests.unit.architectures.configs import LLAMA

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


def write_index(folder: Path, names: Any, total: Any) -> None:
    index = {"metadata": {"total_size": total}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def stored(folder: Path) -> int | None:
    found = published_bytes(folder, layers=4, source="here")
    return None if found is None else found.size_bytes


def stated_in(folder: Path) -> tuple[int, str] | None:
    stated = read_architecture(folder, source="here").published_bytes
    return None if stated is None else (stated.size_bytes, stated.file)


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        published_bytes(folder, layers=4, source="here")
    (problem,) = caught.value.problems
    return str(problem)


def test_one_file_says_its_tensors(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", SIZES)
    assert stored(tmp_path) == 1024


def test_tensors_that_a_server_does_not_load_are_left_out(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", SIZES | NOT_LOADED)
    assert stored(tmp_path) == 1024


def test_all_files_of_an_index_are_read(tmp_path: Path) -> None:
    for number, (name, size) in enumerate(SIZES.items()):
        write_tensors(tmp_path / f"model-{number}.safetensors", {name: size})
    names = {name: f"model-{number}.safetensors" for number, name in enumerate(SIZES)}
    write_index(tmp_path, names, total=999)
    assert stored(tmp_path) == 1024


def test_without_the_weights_the_index_says_the_sum(tmp_path: Path) -> None:
    write_index(tmp_path, dict.fromkeys(SIZES, "model-0.safetensors"), total=1024)
    assert stored(tmp_path) == 1024


def test_a_sum_with_tensors_that_are_not_loaded_says_nothing(tmp_path: Path) -> None:
    write_index(tmp_path, dict.fromkeys(SIZES | NOT_LOADED, "model-0.safetensors"), total=1101)
    assert stored(tmp_path) is None


@pytest.mark.parametrize("content", [b"\xff" * 16, b"version https://git-lfs.github.com/spec/v1"])
def test_a_file_in_another_format_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    assert stored(tmp_path) is None


def test_one_file_in_another_format_leaves_the_sum_unknown(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", SIZES)
    (tmp_path / "b.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    write_index(tmp_path, {"model.norm": "a.safetensors", "lm_head": "b.safetensors"}, total=9)
    assert stored(tmp_path) is None


def with_header(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ends within its header"),
        (with_header('{"a": {}}')[:-1], "ends within its header"),
        (with_header("[]"), "must be a mapping"),
        (with_header("["), "is not JSON"),
        (with_header("[" * 100_000), "is nested too deeply"),
        (with_header('{"a": 3}'), "a: must be a mapping (found 3)"),
        (with_header('{"a": {}}'), "a.data_offsets: must be the start and the end"),
        (with_header('{"a": {"data_offsets": [1]}}'), "a.data_offsets: must be the start"),
        (with_header('{"a": {"data_offsets": [2, 1]}}'), "(found [2, 1])"),
        (with_header('{"a": {"data_offsets": [-2, 1]}}'), "(found [-2, 1])"),
        (with_header('{"a": {"data_offsets": ["0", 1]}}'), "must be a list of whole numbers"),
        (with_header('{"a": {"data_offsets": [0, 9999999999999999]}}'), "must be at most"),
    ],
)
def test_a_broken_header_is_refused_with_its_file(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    message = refusal(tmp_path)
    assert message.startswith("here/model.safetensors: ")
    assert said in message


@pytest.mark.parametrize("total", [0, -5, 1.5, True, "1024", 10**16])
def test_a_sum_that_is_no_number_of_bytes_is_refused_with_its_key(
    tmp_path: Path, total: Any
) -> None:
    write_index(tmp_path, dict.fromkeys(SIZES, "model-0.safetensors"), total=total)
    place = "here/model.safetensors.index.json: metadata.total_size: must be"
    assert refusal(tmp_path).startswith(place)


def test_a_whole_sum_may_be_written_as_a_fraction(tmp_path: Path) -> None:
    write_index(tmp_path, dict.fromkeys(SIZES, "model-0.safetensors"), total=1024.0)
    assert stored(tmp_path) == 1024


@pytest.mark.parametrize(
    ("index", "key"),
    [
        ('{"metadata": [1], "weight_map": {"a": "b"}}', "metadata: must be a mapping"),
        ('{"weight_map": ["a"]}', "weight_map: must be a mapping"),
        ('{"weight_map": {"a": 3}}', "weight_map.a: must be text (found 3)"),
        ("[" * 100_000, "is nested too deeply"),
        ("", "is not JSON"),
    ],
)
def test_a_broken_index_is_refused_with_its_key(tmp_path: Path, index: str, key: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert refusal(tmp_path).startswith(f"here/model.safetensors.index.json: {key}")


def test_a_file_that_nests_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match=r"here/config\.json: is nested too deeply"):
        read_architecture(tmp_path, source="here")


NAMES = st.text(max_size=4) | st.sampled_from(
    ["metadata", "total_size", "weight_map", "data_offsets", "a.safetensors"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def _is_refused_or_read(folder: Path) -> bool:
    try:
        return read_architecture(folder, source="here").layers == 4
    except ConfigError as error:
        return all(each.source.startswith("here/") and each.fix for each in error.problems)


@given(index=JSON, header=JSON)
def test_any_json_beside_a_config_is_read_or_refused(index: Any, header: Any) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(LLAMA))
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        assert _is_refused_or_read(folder)
        (folder / "model.safetensors.index.json").unlink()
        (folder / "model.safetensors").write_bytes(with_header(json.dumps(header)))
        assert _is_refused_or_read(folder)


@given(config=JSON, key=st.sampled_from(sorted(LLAMA)), value=JSON)
def test_any_json_as_a_config_is_read_or_refused(config: Any, key: str, value: Any) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for text in (json.dumps(config), json.dumps(LLAMA | {key: value})):
            (folder / "config.json").write_text(text)
            with suppress(ConfigError):
                assert read_architecture(folder, source="here").layers > 0


def test_a_folder_is_read_with_the_bytes_of_its_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_architecture(tmp_path, source="here").published_bytes is None
    write_tensors(tmp_path / "model.safetensors", SIZES)
    assert stated_in(tmp_path) == (1024, "here/model.safetensors")


def test_weights_that_are_stored_in_32_bits_are_loaded_in_fewer_bytes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"torch_dtype": "float32"}))
    write_tensors(tmp_path / "model.safetensors", SIZES)
    assert read_architecture(tmp_path, source="here").published_bytes is None


def test_the_older_file_of_modelopt_says_the_quantization(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    stated = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(stated))
    assert read_architecture(tmp_path / "config.json", source="here").published_weights == "nvfp4"
