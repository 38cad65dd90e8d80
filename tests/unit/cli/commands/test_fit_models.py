"""Models that `fit` accepts: keys, names of the hub, files and folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.app import app
from tests.unit.architectures.configs import LLAMA


def fit(model: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["fit", model, "--gpu", "H100-80", *options])


def answer(model: str, *options: str) -> dict[str, Any]:
    result = fit(model, *options, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_other_weights_of_a_model_are_judged_in_their_own_scheme() -> None:
    document = answer("redhatai/llama-3.3-70b-instruct-fp8-dynamic", "--tp", "2")
    assert document["model"] == "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"
    assert document["precision"]["weights"] == "fp8"
    plain = answer("llama-3.3-70b", "--tp", "2")
    assert document["weights_gib_per_gpu"] < 0.6 * plain["weights_gib_per_gpu"]


@pytest.mark.parametrize("name", ["config.json", "."])
def test_a_file_or_its_folder_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    document = answer(name)
    assert (document["model"], document["context"]) == (name, 4096)
    assert document["verdict"] == "fits"


def test_a_file_that_is_not_supported_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"model_type": "mamba2"}))
    result = fit(str(path))
    assert result.exit_code == 2
    assert result.stderr.startswith("slipway: the model cannot be read\n")
    assert f"{path}: model_type: this model_type is not supported" in result.stderr
    assert '(found "mamba2")' in result.stderr


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    result = fit(str(tmp_path / "config.json"))
    assert result.exit_code == 2
    assert "config.json: cannot be read: No such file" in result.stderr


def test_a_problem_of_a_folder_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[")
    assert f"\n{tmp_path}/config.json: is not JSON" in fit(str(tmp_path)).stderr


@pytest.mark.parametrize("total", [16060, 4 * 10**9, 2 * 10**12])
def test_a_sum_of_the_index_that_the_weights_cannot_have_is_refused(
    tmp_path: Path, total: int
) -> None:
    write_folder(tmp_path, total)
    result = fit(str(tmp_path))
    assert result.exit_code == 2
    place = f"{tmp_path}/model.safetensors.index.json: metadata.total_size: must be within 25%"
    assert f"{place} of {EIGHT_BILLION}" in result.stderr
    assert f"(found {total})" in result.stderr


def test_a_sum_of_the_index_that_is_near_what_is_counted_is_believed(tmp_path: Path) -> None:
    write_folder(tmp_path, EIGHT_BILLION + 10**6)
    assert answer(str(tmp_path))["sources"]["weights"].startswith("exact")


def write_folder(folder: Path, total: int) -> None:
    (folder / "config.json").write_text(json.dumps(LLAMA | LLAMA_8B))
    index = {"metadata": {"total_size": total}, "weight_map": {"lm_head.weight": "a.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


# config.json of meta-llama/Llama-3.1-8B, and the total_size of its index.
LLAMA_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
EIGHT_BILLION = 16_060_522_496


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "the name is empty"),
        (" ", "the name is empty"),
        ("emptydir", "emptydir: no config.json in this folder"),
        ("./nothing", "./nothing: there is no such file or folder"),
        ("meta-llama/Llama-9", 'did you mean "meta-llama/'),
    ],
)
def test_a_wrong_path_or_name_is_told_without_how_to_add_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "emptydir").mkdir()
    monkeypatch.chdir(tmp_path)
    result = fit(name)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "my-model-8b" not in result.stderr


def test_a_bare_name_is_told_of_the_nearest_of_config_json_and_of_the_catalog() -> None:
    printed = fit("llama-3.1-405").stderr
    assert 'did you mean "llama-3.1-405b"' in printed
    assert "? Otherwise, give the path of its config.json, or add its facts" in printed
    assert "my-model-8b:" in printed
