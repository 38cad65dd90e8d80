"""`slipway connect`: what clients are told."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from typer.testing import CliRunner

from cli.app import app
from cli.clients.settings import CLIENTS, Connection, settings_of
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import put_plan

URL = f"http://{NETWORK}.32:8080"
SECURE = Connection(url="https://llm.example:8443", model="small", authorities=Path("/a b/ca.pem"))


@pytest.fixture
def running(checkout: Path) -> dict[str, Any]:
    """The plan of an environment that is up."""
    document = plan_document()
    put_plan(checkout, document)
    return document


def documents(runner: CliRunner, *arguments: str) -> dict[str, Any]:
    result = runner.invoke(app, ["connect", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_every_client_is_told_the_address_and_a_model(
    runner: CliRunner, running: dict[str, Any]
) -> None:
    document = documents(runner)
    assert (document["url"], document["model"], document["authorities"]) == (URL, "smollm2", None)
    assert [each["client"] for each in document["clients"]] == list(CLIENTS)
    for each in document["clients"]:
        told = json.dumps(each)
        assert URL in told
        assert "smollm2" in told or each["client"] in ("openai", "anthropic")
        assert "ca.pem" not in told


def test_one_client_is_shown_as_lines_for_a_shell(
    runner: CliRunner, running: dict[str, Any]
) -> None:
    result = runner.invoke(app, ["connect", "claude-code", "--model", "small"])
    assert result.exit_code == 0
    head, *lines = result.stdout.strip().splitlines()
    assert head.startswith("# claude-code (https://")
    assert lines[0] == f"export ANTHROPIC_BASE_URL={URL}"
    assert lines[-1] == "claude"
    assert "export ANTHROPIC_DEFAULT_HAIKU_MODEL=small" in lines


def test_the_sdk_reads_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    told = settings_of("openai", Connection(url=URL, model="small"))
    for name, value in told.variables.items():
        monkeypatch.setenv(name, value)
    assert str(openai.OpenAI().base_url) == f"{URL}/v1/"


@pytest.mark.parametrize("connection", [Connection(url=URL, model="small"), SECURE])
def test_files_are_what_their_programs_read(connection: Connection) -> None:
    codex = tomllib.loads(settings_of("codex", connection).text)
    assert codex["model"] == "small"
    provider = codex["model_providers"][codex["model_provider"]]
    assert (provider["base_url"], provider["wire_api"]) == (connection.openai_url, "responses")
    (model,) = yaml.safe_load(settings_of("continue", connection).text)["models"]
    assert (model["model"], model["apiBase"]) == ("small", connection.openai_url)
    compile(settings_of("langchain", connection).text, "langchain", "exec")


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_is_told_whom_to_trust(client: str) -> None:
    told = settings_of(client, SECURE)
    assert "/a b/ca.pem" in f"{dict(told.variables)} {told.text} {told.command}"
    assert all("/a b/ca.pem" not in word for word in told.command.split())  # it is quoted
    assert told.command == "" or shlex.split(told.command)


def test_a_certificates_name_is_the_address_that_clients_use(
    runner: CliRunner, running: dict[str, Any], checkout: Path
) -> None:
    running["gateway"]["clients"] |= {
        "scheme": "https",
        "server_name": "llm.example",
        "ca": "tls/ca.pem",
    }
    put_plan(checkout, running)
    document = documents(runner, "curl")
    assert document["url"] == "https://llm.example:8080"
    assert document["authorities"] == str(checkout / "tls/ca.pem")
    assert f"--cacert '{checkout}/tls/ca.pem'" in document["clients"][0]["command"]


def test_another_address_is_taken_where_clients_have_one(
    runner: CliRunner, running: dict[str, Any]
) -> None:
    assert documents(runner, "--url", "https://llm.example/")["url"] == "https://llm.example"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["emacs"], 'no settings of a client "emacs" are known'),
        (["--model", "other"], 'serves no model "other" over HTTP'),
        (["--url", "llm.example"], "--url: llm.example is not the address of a gateway"),
        (["--url", "https://llm.example/v1"], "no path"),
    ],
)
def test_wrong_input_is_told_with_a_fix(
    runner: CliRunner, running: dict[str, Any], arguments: list[str], told: str
) -> None:
    result = runner.invoke(app, ["connect", *arguments])
    assert result.exit_code == 2
    assert told in result.output
    assert "fix:" in result.output


def test_an_environment_without_a_model_over_http_has_nothing_to_connect_to(
    runner: CliRunner, running: dict[str, Any], checkout: Path
) -> None:
    for model in running["models"]:
        model["protocols"] = ["grpc"]
    put_plan(checkout, running)
    result = runner.invoke(app, ["connect"])
    assert result.exit_code == 2
    assert "serves no model over HTTP" in result.output


def test_an_environment_that_is_not_up_says_so(runner: CliRunner, checkout: Path) -> None:
    result = runner.invoke(app, ["connect"])
    assert result.exit_code == 1
    assert "slipway up -s dev" in result.output
