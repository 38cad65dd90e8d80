"""`slipway status --why`: how the gateway chooses a replica."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.app import app
from cli.clusters.gateway import Endpoint
from cli.views.placement_table import placement_table, with_envoys_view
from tests.unit.cli.addresses import NETWORK
from tests.unit.cli.commands.test_status import ENVOY
from tests.unit.cli.conftest import Serve, Server
from tests.unit.cli.documents import plan_document
from tests.unit.cli.protocols.test_protocols import put_plan

SCHEMA = Path(__file__).parents[4] / "schemas" / "placement.schema.json"
PLACEMENT: dict[str, Any] = {
    "schema_version": 1,
    "model": "smollm2",
    "routing": {
        "policy": "affinity",
        "key": "prefix",
        "session_header": "x-session-id",
        "bound_percent": 150,
    },
    "backends": [
        {
            "service": "model-smollm2-3f9c1a",
            "weight": 100,
            "replicas": [
                {
                    "replica": "model-smollm2-3f9c1a.replica[0]",
                    "address": f"{NETWORK}.16:20001",
                    "healthy": True,
                    "held": False,
                    "weight": 100,
                    "share": 0.625,
                },
                {
                    "replica": "model-smollm2-3f9c1a.replica[1]",
                    "address": f"{NETWORK}.17:20001",
                    "healthy": True,
                    "held": False,
                    "weight": 60,
                    "share": 0.375,
                },
            ],
            "chosen": {"session": "model-smollm2-3f9c1a.replica[1]"},
        }
    ],
}


def served(serve: Serve, checkout: Path, document: dict[str, Any] = PLACEMENT) -> Server:
    put_plan(checkout, plan_document(envoy_metrics=f"{NETWORK}.32:18001"))
    replies = {**ENVOY, "GET /placement": (200, document)}
    return serve(replies, address=f"{NETWORK}.32", port=18001)


def test_it_says_which_replica_gets_a_key_with_weights_shares_and_reasons(
    runner: CliRunner, checkout: Path, serve: Serve
) -> None:
    jsonschema.validate(PLACEMENT, json.loads(SCHEMA.read_text()))
    server = served(serve, checkout)

    result = runner.invoke(app, ["status", "--why", "smollm2", "chat 7"])

    assert result.exit_code == 0, result.stderr
    assert "GET /placement?model=smollm2&key=chat+7" in server.asked
    shown = " ".join(result.stdout.split())
    for text in (
        "the key is the header x-session-id, else the user in the body, else the"
        " beginning of the prompt",
        "150 % of the mean",
        "'chat 7' as a session goes to model-smollm2-3f9c1a.replica[1]",
        "model-smollm2-3f9c1a.replica[1] has 60 % of an equal share",
    ):
        assert text in shown


def test_the_table_has_shares_weights_and_why_a_replica_is_not_in_use() -> None:
    endpoints = [
        Endpoint(cluster="c", address=f"{NETWORK}.16:20001", healthy=True, active_requests=3),
        Endpoint(cluster="c", address=f"{NETWORK}.17:20001", healthy=False, active_requests=0),
    ]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(placement_table(with_envoys_view(PLACEMENT, endpoints), None))
    shown = captured.get()
    for text in ("62.5%", "60 %", "no: Envoy's checks fail, or it has refused requests", "[1]"):
        assert text in shown


def test_the_table_says_which_replicas_are_used_against_consuls_checks() -> None:
    (backend,) = PLACEMENT["backends"]
    replicas = [{**each, "healthy": False, "held": True} for each in backend["replicas"]]
    document = {**PLACEMENT, "backends": [{**backend, "replicas": replicas}]}
    endpoints = [
        Endpoint(cluster="c", address=f"{NETWORK}.{n}:20001", healthy=n == 16, active_requests=0)
        for n in (16, 17)
    ]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(placement_table(with_envoys_view(document, endpoints), None))
    shown = captured.get()
    assert "yes, though Consul's checks fail" in shown
    assert "no: Envoy's checks fail" in shown


def test_without_a_key_it_shows_the_shares_only(
    runner: CliRunner, checkout: Path, serve: Serve
) -> None:
    (backend,) = PLACEMENT["backends"]
    server = served(serve, checkout, {**PLACEMENT, "backends": [{**backend, "chosen": {}}]})

    result = runner.invoke(app, ["status", "--why", "smollm2", "--json"])

    assert "GET /placement?model=smollm2" in server.asked
    replicas = json.loads(result.stdout)["backends"][0]["replicas"]
    assert [(each["in_use"], each["active_requests"]) for each in replicas] == [
        (True, 3),
        (False, 0),
    ]


def test_a_model_without_keys_has_none_to_explain(
    runner: CliRunner, checkout: Path, serve: Serve
) -> None:
    routing = {"policy": "least_request", "key": "prefix", "bound_percent": 150}
    (backend,) = PLACEMENT["backends"]
    document = {**PLACEMENT, "routing": routing, "backends": [{**backend, "chosen": {}}]}
    served(serve, checkout, document)

    shown = runner.invoke(app, ["status", "--why", "smollm2", "x"]).stdout

    assert "fewer requests of two" in " ".join(shown.split())
    assert "'x' decides nothing" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "chat 7"], "a key needs a model"),
        (["status", "--why", "nobody"], "no model has the name 'nobody'"),
    ],
)
def test_a_key_without_a_model_and_an_unknown_model_are_refused(
    runner: CliRunner, checkout: Path, serve: Serve, arguments: list[str], said: str
) -> None:
    put_plan(checkout, plan_document(envoy_metrics=f"{NETWORK}.32:18001"))
    missing = {"GET /placement": (404, b"no model has the name 'nobody'\n")}
    serve(missing, address=f"{NETWORK}.32", port=18001)

    result = runner.invoke(app, arguments)

    assert result.exit_code == 2
    assert said in result.stderr


def test_another_version_is_refused(runner: CliRunner, checkout: Path, serve: Serve) -> None:
    served(serve, checkout, {**PLACEMENT, "schema_version": 2})

    result = runner.invoke(app, ["status", "--why", "smollm2"])

    assert result.exit_code == 1
    assert "schema_version 2" in " ".join(result.stderr.split())


def test_a_gateway_that_does_not_answer_is_named(runner: CliRunner, checkout: Path) -> None:
    put_plan(checkout, plan_document(envoy_metrics=f"{NETWORK}.32:18001"))

    result = runner.invoke(app, ["status", "--why", "smollm2"])

    assert result.exit_code == 1
    assert "the gateway does not answer" in result.stderr
