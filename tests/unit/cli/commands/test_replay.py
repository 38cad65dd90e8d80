"""`slipway replay`, from the files of an environment to the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from cli.commands.replay import Routing, app
from cli.errors import WRONG_INPUT, CliError

ROOT = Path(__file__).parents[4]
DEV = ("--profile", "cpu-smollm2")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": 800 * index, "input_length": 40, "output_length": 60} for index in range(150)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def result_of(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


def test_the_result_follows_its_schema_and_names_its_step_times(trace: Path) -> None:
    found = result_of(str(trace), *DEV)
    schema = json.loads((ROOT / "schemas/replay_result.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    (fleet,) = found["fleets"]
    assert fleet["name"] == "as planned"
    assert fleet["completed"] == 150
    assert "measurement of services/triton_vllm" in fleet["profile_source"]


def test_a_what_if_shows_before_and_after(trace: Path, tmp_path: Path) -> None:
    picture = tmp_path / "replay.png"
    change = ("--what-if", "models.smollm2.replicas.min=2", "--png", str(picture))
    before, after = result_of(str(trace), *DEV, *change)["fleets"]
    assert before["ttft_ms"]["p95"] > after["ttft_ms"]["p95"]
    assert (before["replicas"][0]["ready"], after["replicas"][0]["ready"]) == (1, 2)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_table_is_of_the_same_numbers_and_says_that_they_are_simulated(trace: Path) -> None:
    arguments = (str(trace), *DEV, "--what-if", "models.smollm2.replicas.min=2")
    before, after = result_of(*arguments)["fleets"]
    text = run(*arguments)
    for fleet in (before, after):
        assert f"{fleet['ttft_ms']['p95']:,.0f}" in text
        assert f"{fleet['goodput_share']:.2%}" in text
    assert "what if models.smollm2.replicas.min=2" in text
    assert "Simulated, not measured" in text


def test_broken_lines_are_refused_with_their_places(trace: Path) -> None:
    with trace.open("a") as file:
        file.write("{oops\n")
    with pytest.raises(CliError, match=rf"{trace}:151: not JSON") as refused:
        run(str(trace), *DEV)
    assert refused.value.exit_code == WRONG_INPUT
    assert "--skip-broken" in refused.value.fix
    assert "1 broken lines left out, of 151" in run(str(trace), *DEV, "--skip-broken")


def test_a_trace_is_for_one_model(trace: Path) -> None:
    with pytest.raises(CliError, match="deploys 12 models") as several:
        run(str(trace), "-s", "aws")
    assert "llama-3-1-8b" in several.value.fix
    with pytest.raises(CliError, match='deploys no model "llama-3-1-8"') as unknown:
        run(str(trace), "-s", "aws", "--model", "llama-3-1-8")
    assert "llama-3-1-8b" in unknown.value.fix


def test_routing_choices_are_those_of_the_simulator() -> None:
    schema = json.loads((ROOT / "schemas/replay.schema.json").read_text())
    known = schema["$defs"]["fleet"]["properties"]["routing"]["enum"]
    assert [routing.value for routing in Routing] == known
