"""Models that `fit` accepts: keys, names of the hub, files and folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from slipway.cli.app import app
from tests.unit.config.hub.configs import LLAMA


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


def test_a_file_that_is_not_counted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"model_type": "mamba2"}))
    result = fit(str(path))
    assert result.exit_code == 2
    assert f"{path}: model_type: is not one of the" in result.stderr
    assert '(found "mamba2")' in result.stderr


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    result = fit(str(tmp_path / "config.json"))
    assert result.exit_code == 2
    assert "config.json: cannot be read: No such file" in result.stderr
