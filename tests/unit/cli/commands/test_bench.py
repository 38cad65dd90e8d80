"""`slipway bench`, from its options to the table, the document and the picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.app import app
from tests.schemas import validate
from tests.unit.cli.conftest import Serve
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import ANSWER, CHAT, put_plan

COMPLETIONS = "POST /v1/completions"


@pytest.fixture
def gateway(copied: Path, serve: Serve) -> Any:
    """A gateway that answers all OpenAI requests, of an environment whose files have smollm2."""
    counted = ANSWER.replace(b'"usage": {', b'"usage": {"prompt_tokens": 5, ')
    server = serve({CHAT: (200, counted), COMPLETIONS: (200, counted)})
    host, _, port = server.address.removeprefix("http://").partition(":")
    put_plan(copied, plan_document(gateway=f"{host}:{port}"))
    return server


def bench(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["bench", *arguments])


def document(*arguments: str) -> dict[str, Any]:
    done = bench(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    validate(found, "bench")
    return found


def test_each_number_of_clients_is_a_step(gateway: Any, tmp_path: Path) -> None:
    picture = tmp_path / "bench.png"
    found = document(
        *("small", "--protocol", "http", "--concurrency", "1,3", "--requests", "4"),
        *("--png", str(picture)),
    )
    assert [(step["clients"], step["answered"]) for step in found["steps"]] == [(1, 4), (3, 4)]
    assert [step["output_tokens"] for step in found["steps"]] == [7, 7]
    assert len(gateway.asked) == 1 + 2 * 4
    assert set(gateway.asked) == {COMPLETIONS}
    assert (found["model"], found["simulated"]) == ("smollm2", False)
    assert found["promised"]["goal"] == {"ttft_p95_ms": 2000, "tpot_p95_ms": 150}
    assert "200 + 100 tokens of the declared load" in found["prompts"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_prompts_of_a_file_are_asked_as_chats(gateway: Any, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\nthree\n")
    document(
        *("smollm2", "--protocol", "http", "--concurrency", "1", "--requests", "3"),
        *("--prompts", str(prompts), "--max-tokens", "5"),
    )
    bodies = [json.loads(body) for body in gateway.bodies]
    asked = [body["messages"][0]["content"] for body in bodies]
    assert asked == ["three", "one", "two", "three"]  # after a first question
    assert {body["max_tokens"] for body in bodies} == {5}


def test_the_table_has_the_figures_the_goal_and_the_sizing(gateway: Any) -> None:
    done = bench("small", "--protocol", "http", "--concurrency", "2", "--requests", "6")
    assert done.exit_code == 0, done.output
    assert re.search(r"OpenAI, 2 clients +6 of 6 ", done.stdout)
    assert "p95 at most 2,000" in done.stdout
    assert "simulated" not in done.stdout
    assert "the plan cannot say what to buy" in done.stdout
    assert "OpenAI, 2 clients: 6 requests" in done.stderr


def test_every_figure_of_a_simulated_engine_is_called_simulated(
    gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    steps = ("sim-a", "--protocol", "http", "--concurrency", "1,2", "--requests", "2")
    found = document(*steps)
    assert found["simulated"]
    assert all(step["simulated"] for step in found["steps"])
    table = bench(*steps).stdout
    headings = table.partition("─")[0]
    assert headings.count("simulated") == 4  # TTFT, TPOT, requests/s, tokens/s
    assert "these times and rates are of no hardware" in table


def test_a_model_without_a_whole_answer_is_refused_with_the_kind_of_error(
    copied: Path, serve: Serve
) -> None:
    cut = ANSWER.replace(b"data: [DONE]", b": nothing more")
    server = serve({CHAT: (200, ANSWER), COMPLETIONS: (200, cut)})
    host, _, port = server.address.removeprefix("http://").partition(":")
    put_plan(copied, plan_document(gateway=f"{host}:{port}"))
    refused = bench("small", "--protocol", "http", "--concurrency", "1")
    assert refused.exit_code == 1
    assert "first questions had no answer; the last: stream cut" in refused.stderr
    assert "fix: slipway status" in refused.stderr


def test_figures_are_shown_before_the_reason_why_others_are_missing(gateway: Any) -> None:
    """The gateway speaks no gRPC."""
    done = bench("small", "--concurrency", "1", "--requests", "2", "--timeout-s", "5", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    validate(found, "bench")
    assert [(step["protocol"], step["answered"]) for step in found["steps"]] == [("http", 2)]
    assert "first questions had no answer; the last: gRPC" in found["failed"]
    assert found["failed"] in done.stderr


def test_a_full_disk_costs_the_picture_and_no_figures(gateway: Any, tmp_path: Path) -> None:
    picture = tmp_path / "bench.png"
    picture.symlink_to("/dev/full")
    steps = ("--protocol", "http", "--concurrency", "2", "--requests", "2")
    done = bench("small", *steps, "--png", str(picture), "--json")
    assert done.exit_code != 0
    assert json.loads(done.stdout)["steps"][0]["answered"] == 2


@pytest.mark.parametrize("number", ["0", "-1", "many", "1,0", "", "901", "1.5"])
def test_a_number_of_clients_that_is_none_is_refused_before_anything_is_asked(number: str) -> None:
    done = bench("smollm2", f"--concurrency={number}")
    assert done.exit_code == 2
    assert "is not a number of clients from 1 to 900" in done.stderr
    assert "fix: write numbers with commas between them" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompts", "empty.txt"], ["empty.txt has no prompts", "fix: write one prompt"]),
        (["--prompts", "absent.txt"], ["absent.txt is no file", "fix: pass a file"]),
        (["--trace", "other.jsonl"], ['is of the model "gpt-4", not of smollm2', "fix: use a"]),
        (["--trace", "long.jsonl"], ["more than the 2,048 of smollm2", "fix: use a trace"]),
        (["--trace", "x", "--prompts", "y"], ["cannot be combined", "fix: leave out one"]),
        (["--protocol", "grpc"], ["does not speak Triton's protocol", "fix: leave out --protocol"]),
        (
            ["--requests", "5"],
            ["5 of 32 clients would ask", "fix: use --requests 32 or more, or --concurrency up"],
        ),
        (["--png", "picture.jpg"], ["is not the name of a PNG file", "fix: use a file name"]),
    ],
)
def test_wrong_input_is_one_sentence_with_the_fix(
    copied: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    said: list[str],
) -> None:
    plan = plan_document()
    plan["models"][1]["protocols"] = ["http"]
    put_plan(copied, plan)
    monkeypatch.chdir(tmp_path)
    line = {"timestamp": 0, "input_length": 4, "output_length": 4}
    Path("empty.txt").write_text("\n \n")
    Path("other.jsonl").write_text(json.dumps(line | {"model": "gpt-4"}))
    Path("long.jsonl").write_text(json.dumps(line | {"input_length": 4096}))
    done = bench("small", *options)
    assert done.exit_code == 2, done.output
    assert all(each in done.stderr for each in said)
    assert done.stdout == ""


def test_an_unknown_model_and_an_environment_that_is_not_up_are_named(copied: Path) -> None:
    down = bench("smollm2")
    assert down.exit_code == 1
    assert "slipway up -s dev" in down.stderr
    put_plan(copied, plan_document())
    unknown = bench("smolm2")
    assert unknown.exit_code == 2
    assert 'did you mean "smollm2"?' in unknown.stderr
