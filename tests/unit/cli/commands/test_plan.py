from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.app import app
from tests.schemas import validate


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner(env={"COLUMNS": "200", "SLIPWAY_CACHE": "/nonexistent"})


def _plan(runner: CliRunner, *arguments: str) -> Result:
    return runner.invoke(app, ["plan", *arguments])


@pytest.mark.parametrize("name", ["aws", "metal"])
def test_a_shipped_fleet_keeps_its_goals_and_its_limits(runner: CliRunner, name: str) -> None:
    done = _plan(runner, "-s", name)
    assert done.exit_code == 0
    assert "pools that were not chosen" in done.stdout
    assert "USD/month" in done.stdout
    plan = json.loads(_plan(runner, "-s", name, "--json").stdout)
    assert [model["name"] for model in plan["models"] if not model["meets_goal"]] == []
    of_models = [pool for pool in plan["pools"] if pool["accelerator"]]
    assert all(pool["accelerators_used"] for pool in of_models), "every pool is of use"
    # Prices become old; there is nothing else to warn about.
    assert [text for text in plan["warnings"] if "days old" not in text] == []


@pytest.mark.parametrize("name", ["aws", "metal", "dev"])
def test_the_json_of_every_environment_follows_its_schema(runner: CliRunner, name: str) -> None:
    done = _plan(runner, "-s", name, "--json")
    document = json.loads(done.stdout)
    validate(document, "plan")
    for model in document["models"]:
        assert {"pool", "layout", "replica"} <= model.keys()
    assert document["environment"] == name


def test_dev_shows_where_things_run_and_what_they_need(runner: CliRunner) -> None:
    done = _plan(runner)
    assert "http://127.77.0.32:8080" in done.stdout
    assert "dev: what the models need" in done.stdout


def test_machines_that_are_all_listed_are_shown_by_address(runner: CliRunner, copied: Path) -> None:
    hosts = [{"name": f"rack{k}", "address": f"10.50.0.{k}"} for k in (11, 12)]
    size = {"memory": "1TiB", "cpu": 96}
    accelerators = size | {"kind": "metal", "accelerator": "L40S", "accelerators_per_node": 8}
    (copied / "Pulumi.listed.yaml").write_text(
        yaml.safe_dump(
            {
                "config": {
                    "slipway:target": "metal",
                    "slipway:network": {"cidr": "10.50.0.0/16"},
                    "slipway:pools": {"l40s": accelerators | {"hosts": hosts}},
                    "slipway:gateway": {"pool": "l40s"},
                    "slipway:models": {
                        "qwen2-5-7b": {"pool": "l40s", "replicas": {"min": 2, "max": 4}}
                    },
                }
            }
        )
    )
    done = _plan(runner, "-s", "listed")
    assert done.exit_code == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if "10.50.0.11-12" in line]
    offered = ["1024.0", "GiB", "96000", "MHz"]
    assert row[:-2] == ["l40s", "2", "metal", "10.50.0.11-12", *offered]


def test_what_if_shows_before_and_after(runner: CliRunner) -> None:
    change = "models.qwen3-8b.replicas={min: 1, max: 1}"
    done = _plan(runner, "-s", "aws", "--what-if", change)
    assert done.exit_code == 0
    (goal,) = [line for line in done.stdout.splitlines() if line.split()[:1] == ["goal"]]
    assert goal.split() == ["goal", "met", "missed"]
    document = json.loads(_plan(runner, "-s", "aws", "--what-if", change, "--json").stdout)
    before, after = (
        next(model for model in plan["models"] if model["name"] == "qwen3-8b")
        for plan in (document["before"], document)
    )
    assert (before["meets_goal"], after["meets_goal"]) == (True, False)


def test_what_if_shows_the_whole_plan_on_request(runner: CliRunner) -> None:
    change = ("-s", "aws", "--what-if", "models.phi-4.replicas={min: 1, max: 1}")
    short, full = _plan(runner, *change), _plan(runner, *change, "--full")
    assert "what the models need" not in short.stdout
    assert "--full shows the whole plan" in short.stderr
    assert full.stdout.startswith(short.stdout)
    assert "what the models need" in full.stdout
    assert "--full" not in full.stderr


def test_what_if_shows_the_warnings_that_are_new(runner: CliRunner) -> None:
    done = _plan(runner, "-s", "aws", "--what-if", "budget.usd_per_hour=1")
    assert "nothing in the plan changes" in done.stdout
    (warning,) = [line for line in done.stdout.splitlines() if line.startswith("! ")]
    assert warning.endswith("the budget is 1")


def test_what_if_without_an_effect_says_so(runner: CliRunner) -> None:
    done = _plan(runner, "-s", "aws", "--what-if", "models.phi-4.replicas.max=4")
    assert "nothing in the plan changes" in done.stdout


def test_an_unmatched_change_is_wrong_input(runner: CliRunner) -> None:
    done = _plan(runner, "-s", "aws", "--what-if", "models.ph-4.slo.ttft_p95_ms=5")
    assert done.exit_code == 2
    assert 'did you mean "phi-4"?' in done.stderr


def test_explain_shows_the_arithmetic_with_its_sources(runner: CliRunner) -> None:
    done = _plan(runner, "-s", "aws", "--explain", "qwen2-5-7b")
    assert done.exit_code == 0
    assert "2 x 28 layers x 4 KV heads x 128 x 2 B" in done.stdout
    lines = json.loads(_plan(runner, "-s", "aws", "--explain", "qwen2-5-7b", "--json").stdout)
    assert all(line["source"] for line in lines["lines"])


@pytest.mark.parametrize(("columns", "width"), [("100", 100), ("30", 80), (None, 160)])
def test_a_pipe_has_the_width_of_columns_and_no_colours(columns: str | None, width: int) -> None:
    runner = CliRunner(env={"COLUMNS": columns, "SLIPWAY_CACHE": "/nonexistent"})
    text = _plan(runner, "-s", "aws", "--explain", "llama-3-1-8b").stdout
    assert width - 10 < max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


@pytest.mark.thorough
def test_a_sweep_prints_the_front_and_writes_a_picture(runner: CliRunner, tmp_path: Path) -> None:
    png = tmp_path / "sweep.png"
    done = _plan(runner, "-s", "aws", "--sweep", "llama-3-1-8b", "--png", str(png))
    assert done.exit_code == 0
    assert "no other configuration is both cheaper and faster" in done.stdout
    assert png.read_bytes().startswith(b"\x89PNG")
    assert str(png) in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "aws", "--explain", "phi4"], 'did you mean "phi-4"?'),
        (["-s", "aws", "--sweep", "phi4"], 'did you mean "phi-4"?'),
        (["--sweep", "smollm2"], "no accelerators to sweep over"),
        (["-s", "awz"], 'no environment "awz"'),
    ],
)
def test_what_is_not_there_is_wrong_input(
    runner: CliRunner, arguments: list[str], message: str
) -> None:
    done = _plan(runner, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
