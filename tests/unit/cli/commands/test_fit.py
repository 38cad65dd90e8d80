from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from slipway.config.catalog import NAMES, load_catalog
from tests.unit.plan.samples import ROOT

KEYS = {
    "verdict",
    "band",
    "memory_bytes_per_gpu",
    "longest_sequence_bytes_per_gpu",
    "max_num_seqs",
    "feasible",
    "reasons",
    "suggestions",
    "weights_gib_per_gpu",
    "kv_bytes_per_token",
    "kv_bytes_per_token_per_gpu",
    "kv_tokens",
    "max_concurrent_requests",
    "max_len",
    "context",
    "model",
    "gpu",
    "count",
    "layout",
    "precision",
    "parameters",
    "active_parameters",
    "memory_gib_per_gpu",
    "notes",
    "sources",
}


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


def _answer(runner: CliRunner, *arguments: str) -> dict[str, Any]:
    result = runner.invoke(app, ["fit", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_json_has_everything_a_script_asks_for(runner: CliRunner) -> None:
    answer = _answer(runner, "qwen2.5-7b", "--gpu", "L4")
    assert answer.keys() == KEYS
    assert answer["feasible"] is True
    assert answer["verdict"] == "fits"
    assert answer["reasons"] == answer["suggestions"] == []
    assert answer["kv_tokens"] == pytest.approx(82_000, rel=0.03)
    assert answer["kv_bytes_per_token"] == 56 * 1024
    assert answer["weights_gib_per_gpu"] == pytest.approx(14.2, abs=0.05)
    assert answer["sources"].keys() == answer["memory_gib_per_gpu"].keys()


def test_all_options_take_effect(runner: CliRunner) -> None:
    answer = _answer(
        runner,
        *("llama-3.1-70b", "--gpu", "H100-80", "--count", "8", "--tp", "4", "--pp", "2"),
        *("--quant", "fp8", "--kv-dtype", "fp8", "--max-len", "16384"),
    )
    assert (answer["count"], answer["gpu"], answer["max_len"]) == (8, "H100-80", 16_384)
    assert answer["layout"] == {"tensor": 4, "pipeline": 2, "expert": 1, "data": 1}
    assert answer["precision"] == {"weights": "fp8", "kv": "fp8"}
    assert answer["kv_bytes_per_token"] == 160 * 1024
    assert answer["kv_bytes_per_token_per_gpu"] == 20 * 1024


def test_devices_alone_mean_tensor_parallel(runner: CliRunner) -> None:
    answer = _answer(runner, "llama-3.1-70b", "--gpu", "H100-80", "--count", "2", "--quant", "fp8")
    assert answer["layout"]["tensor"] == 2
    assert answer["kv_tokens"] == pytest.approx(237_000, rel=0.03)


def test_an_accelerator_that_no_engine_serves_cannot_run_whatever_its_memory(
    runner: CliRunner,
) -> None:
    result = runner.invoke(app, ["fit", "llama-3.1-70b", "--gpu", "trn1", "--count", "16"])
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert said.startswith("llama-3.1-70b cannot run on 16 x trn1")
    assert said.endswith(
        "why: not served here: trn1 needs Neuron's own vLLM, which Slipway does not include"
    )
    answer = _answer(runner, "llama-3.1-70b", "--gpu", "trn1", "--count", "16")
    assert (answer["verdict"], answer["feasible"]) == ("cannot_run", False)


def test_a_model_that_does_not_fit_is_an_answer_to_a_script(runner: CliRunner) -> None:
    answer = _answer(runner, "llama-3.1-70b", "--gpu", "H100-80")
    assert answer["feasible"] is False
    assert "short" in answer["reasons"][0]
    assert answer["suggestions"][0].startswith("--count 2 --tp 2")
    assert answer["kv_tokens"] == answer["max_concurrent_requests"] == 0


def test_a_person_reads_why_and_what_would_fit(runner: CliRunner) -> None:
    result = runner.invoke(app, ["fit", "phi-4", "--gpu", "H100-80", "--tp", "4"])
    assert result.exit_code == 1
    assert "phi-4 cannot run on 4 x H100-80 (tensor 4)" in result.stdout
    assert "why: 10 KV heads can be neither divided over nor replicated on 4" in result.stdout
    assert "fits with --count 2 --tp 2: " in result.stdout
    assert "requests of that length" not in result.stdout


def test_a_person_reads_what_remains(runner: CliRunner) -> None:
    result = runner.invoke(app, ["fit", "deepseek-v3", "--gpu", "H100-80", "--count", "16"])
    assert result.exit_code == 0
    assert "deepseek-v3 fits on 16 x H100-80 (tensor 8, pipeline 2), fp8-block" in result.stdout
    assert "37.55 billion" in result.stdout
    assert "68.6 KiB" in result.stdout
    assert "163,840 of 163,840" in result.stdout
    assert "why" not in result.stdout
    assert "estimate: counted from the architecture" in result.stdout


@pytest.mark.parametrize("name", ["Qwen2.5-7B", "Qwen/Qwen2.5-7B-Instruct"])
def test_a_model_is_found_by_its_name_on_the_hub_too(runner: CliRunner, name: str) -> None:
    assert _answer(runner, name, "--gpu", "l4")["model"] == "qwen2.5-7b"


def test_a_model_comes_in_the_weights_it_was_published_in(runner: CliRunner) -> None:
    answer = _answer(runner, "gpt-oss-120b", "--gpu", "H100-80")
    assert answer["precision"]["weights"] == "mxfp4"


def test_near_the_edge_a_model_may_fit_and_is_told_what_decides(runner: CliRunner) -> None:
    """Servers of 2025 had nothing left here at their defaults (vllm-project/vllm#23278)."""
    result = runner.invoke(app, ["fit", "gpt-oss-120b", "--gpu", "H100-80"])
    assert result.exit_code == 0
    assert "gpt-oss-120b may fit on 1 x H100-80" in result.stdout
    assert "The outcome depends on the errors of the weights" in " ".join(result.stdout.split())
    assert "surely fits with --count 2 --tp 2" in result.stdout
    answer = _answer(runner, "gpt-oss-120b", "--gpu", "H100-80")
    assert (answer["verdict"], answer["feasible"]) == ("may_fit", False)
    low, high = answer["band"]["kv_cache_gib_per_gpu"]
    assert low < 0 < high


def test_the_number_of_requests_and_the_share_of_memory_can_be_set(runner: CliRunner) -> None:
    answer = _answer(
        runner, "qwen2.5-7b", "--gpu", "H100-80", "--max-num-seqs", "16", "--utilization", "0.5"
    )
    assert answer["max_num_seqs"] == 16
    assert answer["max_concurrent_requests"] <= 16
    size = answer["memory_bytes_per_gpu"]
    assert size["usable"] == size["device"] // 2


def test_an_unknown_model_names_the_facts_to_add(runner: CliRunner) -> None:
    result = runner.invoke(app, ["fit", "my-model-8b", "--gpu", "L4"])
    assert result.exit_code == 2
    assert 'catalog/models.yaml has no model "my-model-8b"' in result.stderr
    assert "num_hidden_layers" in result.stderr


def test_the_example_of_an_entry_is_one(runner: CliRunner, tmp_path: Any) -> None:
    printed = runner.invoke(app, ["fit", "my-model-8b", "--gpu", "L4"]).stderr
    start, end = printed.index("my-model-8b:\n"), printed.index("(also, where it has them")
    (tmp_path / "catalog").mkdir()
    for name in set(NAMES) - {"models"}:
        text = (ROOT / "catalog" / f"{name}.yaml").read_text()
        (tmp_path / "catalog" / f"{name}.yaml").write_text(text)
    lines = printed[start:end].rstrip().splitlines()
    text = "\n".join(line.removeprefix("        ") for line in lines)
    (tmp_path / "catalog/models.yaml").write_text(text + "\n")
    assert load_catalog(tmp_path).models["my-model-8b"].hub == ("my-org/My-Model-8B",)


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (
            ["qwen2.5-7c", "--gpu", "L4"],
            "qwen2.5-7c",
            'did you mean "qwen2.5-7b", "qwen2.5-72b" or',
        ),
        (["qwen2.5-7b", "--gpu", "H100"], "--gpu", 'did you mean "H100-80"?'),
        (["phi-4", "--gpu", "L4", "--quant", "fp9"], "--quant", 'did you mean "fp8"?'),
        (["phi-4", "--gpu", "L4", "--kv-dtype", "int2"], "--kv-dtype", "bf16"),
        (["phi-4", "--gpu", "L4", "--count", "3", "--tp", "2"], "3 devices are not", "product"),
        (["phi-4"], "--gpu", ""),
        (["phi-4", "--gpu", "L4", "--count", "0"], "--count", ""),
    ],
)
def test_wrong_input_exits_with_2_and_says_what_is_right(
    runner: CliRunner, arguments: list[str], message: str, fix: str
) -> None:
    result = runner.invoke(app, ["fit", *arguments])
    assert result.exit_code == 2
    assert message in result.output
    assert fix in result.output
