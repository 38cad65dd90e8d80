"""Models by the names under which weights are published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway.architectures.model_files import named_architectures
from slipway.architectures.names import find_published
from slipway.config.document import Origin
from slipway.config.errors import ConfigError, Problem
from slipway.config.model import Model, parse_model
from slipway.planner.architecture import find_architecture
from slipway.planner.quantization import SCHEMES
from tests.unit.architectures.configs import LLAMA
from tests.unit.planner.architectures import MODELS

FP8 = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"
META = "meta-llama/Llama-3.1-405B-Instruct-FP8"
ORIGIN = Origin(source="models/chat.yaml")
CHECKPOINTS = [
    (key, checkpoint) for key, model in MODELS.items() for checkpoint in model.checkpoints
]


def model(source: dict[str, str] | None = None, architecture: str | None = None) -> Model:
    engine = {"kind": "vllm"} | ({"architecture": architecture} if architecture else {})
    values: dict[str, Any] = {"name": "chat", "engine": engine}
    return parse_model(values | ({"source": source} if source else {}), origin=ORIGIN)


def hub(name: str) -> dict[str, str]:
    return {"hf": name, "revision": "0" * 40}


def planned(root: Path, found: Model) -> tuple[str, Any] | Problem:
    """What a plan of the model file takes, as load_inputs and the planner find it."""
    return find_architecture(found, {**MODELS, **named_architectures(root, [found], MODELS)})


def test_a_name_of_the_hub_is_found_in_any_case() -> None:
    for name in ("Qwen/Qwen3-8B", "qwen/qwen3-8b"):
        assert find_published(name, MODELS) == ("qwen3-8b", MODELS["qwen3-8b"])


def test_other_weights_have_facts_of_their_own() -> None:
    found = find_published(META.upper(), MODELS)
    assert found is not None
    name, architecture = found
    assert (name, architecture.published_weights) == (META, "fp8")
    assert architecture.layers == MODELS["llama-3.1-405b"].layers
    kept = {matrix for each in architecture.unquantized for matrix in each.matrices}
    assert {"query", "attention output", "MLP"} <= kept


def test_padded_mlps_are_those_of_the_weights() -> None:
    found = find_published("Qwen/Qwen2.5-72B-Instruct-AWQ", MODELS)
    assert found is not None
    assert found[1].intermediate > MODELS["qwen2.5-72b"].intermediate


def test_an_unknown_name_is_none() -> None:
    assert find_published("nobody/nothing", MODELS) is None


@pytest.mark.parametrize(("key", "checkpoint"), CHECKPOINTS, ids=lambda each: str(each)[:40])
def test_weights_of_the_catalog_are_in_a_known_scheme_and_keep_layers_that_exist(
    key: str, checkpoint: Any
) -> None:
    assert checkpoint.weights in SCHEMES
    for kept in checkpoint.unquantized:
        assert all(layer < MODELS[key].layers for layer in kept.layers or ())


def test_no_two_weights_have_one_name() -> None:
    names = [name.lower() for _, each in CHECKPOINTS for name in each.hub]
    names += [name.lower() for each in MODELS.values() for name in each.hub]
    assert len(names) == len(set(names))


def test_a_source_with_facts_of_its_own_is_planned_with_them(tmp_path: Path) -> None:
    for architecture in (None, "llama-3.3-70b"):
        found = planned(tmp_path, model(hub(FP8), architecture))
        assert not isinstance(found, Problem)
        assert (found[0], found[1].published_weights) == (FP8, "fp8")


def test_a_source_of_the_catalog_is_planned_by_its_key(tmp_path: Path) -> None:
    found = planned(tmp_path, model(hub("Qwen/Qwen3-8B")))
    assert found == ("qwen3-8b", MODELS["qwen3-8b"])


def test_an_architecture_may_be_a_name_of_the_hub(tmp_path: Path) -> None:
    found = planned(tmp_path, model({"s3": "s3://models/chat/", "revision": "1"}, FP8))
    assert not isinstance(found, Problem)
    assert found[1].published_weights == "fp8"


def test_an_architecture_may_be_a_file_beside_the_model_file(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "chat.json").write_text(json.dumps(LLAMA))
    found = planned(tmp_path, model({"s3": "s3://models/chat/", "revision": "1"}, "chat.json"))
    assert not isinstance(found, Problem)
    assert (found[0], found[1].hidden) == ("chat.json", 64)
    assert found[1].source == "models/chat.json"


def test_a_folder_with_a_config_needs_no_architecture(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = planned(tmp_path, model({"path": str(tmp_path), "revision": "1"}))
    assert not isinstance(found, Problem)
    assert (found[0], found[1].hidden) == (str(tmp_path), 64)


def test_a_folder_that_only_the_nodes_have_needs_an_architecture(tmp_path: Path) -> None:
    found = planned(tmp_path, model({"path": "/srv/models/chat", "revision": "1"}))
    assert isinstance(found, Problem)
    assert found.key == "engine.architecture"
    assert "config.json" in found.fix


def test_a_file_that_is_missing_is_refused_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, model(hub("nobody/nothing"), "chat.json"))
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("models/chat.yaml", "engine.architecture")


def test_a_file_that_is_not_supported_is_refused_with_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "chat.json").write_text(json.dumps(LLAMA | {"model_type": "mamba2"}))
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, model(hub("nobody/nothing"), "chat.json"))
    (problem,) = caught.value.problems
    assert (problem.source, problem.key) == ("models/chat.json", "model_type")


@pytest.mark.parametrize("text", ["", "[]", "{", "\ufeff{}"])
def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "chat.json").write_text(text)
    with pytest.raises(ConfigError, match=r"JSON|mapping"):
        planned(tmp_path, model(hub("nobody/nothing"), "chat.json"))


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models" / "chat").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"architecture: no config\.json in this folder"):
        planned(tmp_path, model(hub("nobody/nothing"), "chat"))


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        parse_model({"name": "chat", "engine": {"kind": "vllm", "architecture": ""}}, origin=ORIGIN)


@pytest.mark.parametrize(
    ("name", "suggested"), [("meta-llama/Llama-9", "meta-llama/"), ("llama-3.1-405", "llama-3.1")]
)
def test_the_nearest_names_are_of_the_kind_that_was_given(
    tmp_path: Path, name: str, suggested: str
) -> None:
    found = planned(tmp_path, model(hub("nobody/nothing"), name))
    assert isinstance(found, Problem)
    assert f'did you mean "{suggested}' in found.fix
    assert "give the path of its config.json" in found.fix
    assert ("my-model-8b" in found.fix) == ("/" not in name)


def test_a_sum_that_the_weights_cannot_have_is_refused_in_a_plan(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    index = {"metadata": {"total_size": 7}, "weight_map": {"lm_head.weight": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = planned(tmp_path, model({"path": str(tmp_path), "revision": "1"}))
    assert isinstance(found, Problem)
    assert (found.key, found.value) == ("metadata.total_size", 7)
    assert found.source.endswith("model.safetensors.index.json")
